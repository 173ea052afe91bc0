-- What scripts of a gateway find beside the modules: the exchange that is under way, and how to answer it. Called once
-- for each state with the functions of the program.
local native = ...

local logger = require("silly.logger")
local task, time = require("silly.task"), require("silly.time")
local concat = table.concat

request, response = native.request, native.response
setmetatable(request, { __index = native.request_get, __newindex = native.request_set, __metatable = "request" })
setmetatable(response, { __index = native.response_get, __newindex = native.response_set, __metatable = "response" })
respond = native.respond
fetch = native.fetch
metrics = native.make_metrics(native.metrics)
store = native.make_store(native.store)
regex = require("regex")

log = setmetatable({
  debug = logger.debug,
  info = logger.info,
  warn = logger.warn,
  error = logger.error,
}, {
  __call = function(_, ...)
    logger.info(...)
  end,
})

-- Calls a function again and again, in a task of its own, until the state ends or the function it returns is called.
-- A call that is still under way is not overtaken; one that fails is in the log, and the next one comes.
function every(seconds, body)
  if type(seconds) ~= "number" or not (seconds >= 0.001) then
    error("every: seconds from 0.001 on are expected, not " .. tostring(seconds), 2)
  end
  if type(body) ~= "function" then
    error("every: a function is expected, not " .. tostring(body), 2)
  end
  local timer, running
  local function ring()
    timer = time.after(seconds * 1000, ring)
    if not running or not task.status(running) then
      running = task.running()
      body()
    end
  end
  timer = time.after(seconds * 1000, ring)
  return function()
    time.cancel(timer)
  end
end

-- What becomes of content as a whole: for `return whole(function(body) ... end)`.
function whole(change, most)
  local parts, size = {}, 0
  most = most or native.body_limit
  return function(piece, last)
    size = size + #piece
    if size > most then
      error("the content has more than " .. most .. " bytes", 0)
    end
    parts[#parts + 1] = piece
    if not last then
      return ""
    end
    local body = concat(parts)
    return change(body) or body
  end
end
