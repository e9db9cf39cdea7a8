"""The version of hdrl, in one place."""

VERSION = "0.2.0"
