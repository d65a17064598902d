"""The cycle simulator of an SM, in a folder of its own because compiled code is cached by folder."""
