"""The command line: parse, call one function of hdrl, print."""
