"""The worlds that schedulers are compared in, a folder for each; none of them knows another."""
