"""Pure functions from traces to estimates: numpy only; no device, no files, no clock, no printing."""
