//! The only sockets, files, timers, threads and clocks of the program.
