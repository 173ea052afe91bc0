-- Time, as scripts for OpenResty ask for it; waits and timers.
local native, ngx, core = ...

local error, tonumber, tostring, type, unpack = error, tonumber, tostring, type, unpack
local date, floor, select = os.date, math.floor, select
local time = require("silly.time")

-- Most timers that are to come.
local MOST = 1024

function ngx.now()
  return native.now() / 1000
end

function ngx.time()
  return floor(native.now() / 1000)
end

-- The clock is read whenever somebody asks.
function ngx.update_time() end

function ngx.today()
  return date("%Y-%m-%d")
end

function ngx.localtime()
  return date("%Y-%m-%d %H:%M:%S")
end

function ngx.utctime()
  return date("!%Y-%m-%d %H:%M:%S")
end

local function moment(value, name)
  local number = tonumber(value)
  if not number then
    error("bad argument #1 to '" .. name .. "' (number expected, got " .. type(value) .. ")", 3)
  end
  return floor(number)
end

function ngx.http_time(value)
  return date("!%a, %d %b %Y %H:%M:%S GMT", moment(value, "http_time"))
end

function ngx.cookie_time(value)
  return date("!%a, %d-%b-%y %H:%M:%S GMT", moment(value, "cookie_time"))
end

function ngx.parse_http_time(value)
  return native.parse_http_time(value)
end

local WAITS = core.set("rewrite", "access", "content", "header_filter", "body_filter", "log", "timer")

function ngx.sleep(value)
  core.need(WAITS)
  local number = tonumber(value)
  if not number or number < 0 then
    error("invalid sleep duration \"" .. tostring(value) .. "\"", 2)
  end
  time.sleep(number * 1000)
end

local pending = 0

local function later(delay, premature, body, ...)
  if pending >= MOST then
    return nil, "too many pending timers"
  end
  pending = pending + 1
  local count, arguments = select("#", ...), { ... }
  time.after(delay * 1000, function()
    pending = pending - 1
    body(premature, unpack(arguments, 1, count))
  end)
  return true
end

local function check(delay, body, name)
  if type(delay) ~= "number" or delay < 0 then
    error("bad argument #1 to '" .. name .. "' (a delay in seconds is expected)", 3)
  elseif type(body) ~= "function" then
    error("bad argument #2 to '" .. name .. "' (function expected, got " .. type(body) .. ")", 3)
  end
end

ngx.timer = {
  at = function(delay, body, ...)
    check(delay, body, "at")
    return later(delay, false, body, ...)
  end,
  every = function(delay, body, ...)
    check(delay, body, "every")
    if delay == 0 then
      error("bad argument #1 to 'every' (it has to be more than 0)", 2)
    end
    local count, arguments = select("#", ...), { ... }
    local function again()
      -- The next one is due whatever becomes of this one.
      later(delay, false, again)
      body(false, unpack(arguments, 1, count))
    end
    return later(delay, false, again)
  end,
  pending_count = function()
    return pending
  end,
  running_count = function()
    return 0
  end,
}
