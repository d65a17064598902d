"""The command line: one file a group of commands, `app.main` in front of them."""
