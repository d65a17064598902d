"""The cycle simulator of an SM, apart from the model: its compiled code is stored per folder."""
