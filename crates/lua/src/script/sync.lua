-- `silly.sync`: how tasks wait for each other.
return {
  channel = require("silly.sync.channel"),
  mutex = require("silly.sync.mutex"),
  waitgroup = require("silly.sync.waitgroup"),
  singleflight = require("silly.sync.singleflight"),
}
