//! Clusters of servers: balancing, pools, resolution.
