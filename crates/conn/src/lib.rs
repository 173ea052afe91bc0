//! A codec over a socket, server and client side.
