"""From machine code, its counts and the measured GPU to predicted time: costs, the path of a warp, the SM, bounds."""
