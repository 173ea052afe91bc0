//! One exchange: route, action, upstream, retry, answer, log.
