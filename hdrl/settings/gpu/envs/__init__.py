"""The environments of GPU clusters."""
