"""The version of hdrl, in one place."""

VERSION = "0.1.0"
