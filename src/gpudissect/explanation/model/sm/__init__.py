"""The cycle simulator of an SM. It has its own folder because compiled code is cached by folder."""
