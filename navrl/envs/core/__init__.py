"""The parts that all worlds share: base class, rewards, specs, random numbers, packing, compiling."""
