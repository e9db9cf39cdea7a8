"""``python -m hdrl``: the command ``hdrl``, where its folder is not on the PATH."""

from hdrl.launcher.main import cli

if __name__ == "__main__":
    cli(prog_name="hdrl")
