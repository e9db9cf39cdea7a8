"""The settings that come with hdrl, a folder each; `hdrl.setting.SETTINGS` finds them by name."""
