-- What scripts for OpenResty say: the answer, its head, and lines of the log.
local native, ngx, core = ...

local concat, format = table.concat, string.format
local error, ipairs, pairs, rawset, select, tonumber, tostring, type =
  error, ipairs, pairs, rawset, select, tonumber, tostring, type
local getinfo = debug.getinfo
local REQUEST, EXCHANGE = core.REQUEST, core.EXCHANGE
local null = native.null

-- Most bytes of an answer.
local MOST = 16 * 1024 * 1024

for name, value in pairs({
  OK = 0, ERROR = -1, AGAIN = -2, DONE = -4, DECLINED = -5, null = null,
  STDERR = 0, EMERG = 1, ALERT = 2, CRIT = 3, ERR = 4, WARN = 5, NOTICE = 6, INFO = 7, DEBUG = 8,
  HTTP_CONTINUE = 100, HTTP_SWITCHING_PROTOCOLS = 101, HTTP_OK = 200, HTTP_CREATED = 201, HTTP_ACCEPTED = 202,
  HTTP_NO_CONTENT = 204, HTTP_PARTIAL_CONTENT = 206, HTTP_SPECIAL_RESPONSE = 300, HTTP_MOVED_PERMANENTLY = 301,
  HTTP_MOVED_TEMPORARILY = 302, HTTP_SEE_OTHER = 303, HTTP_NOT_MODIFIED = 304, HTTP_TEMPORARY_REDIRECT = 307,
  HTTP_PERMANENT_REDIRECT = 308, HTTP_BAD_REQUEST = 400, HTTP_UNAUTHORIZED = 401, HTTP_PAYMENT_REQUIRED = 402,
  HTTP_FORBIDDEN = 403, HTTP_NOT_FOUND = 404, HTTP_NOT_ALLOWED = 405, HTTP_NOT_ACCEPTABLE = 406,
  HTTP_REQUEST_TIMEOUT = 408, HTTP_CONFLICT = 409, HTTP_GONE = 410, HTTP_UPGRADE_REQUIRED = 426,
  HTTP_TOO_MANY_REQUESTS = 429, HTTP_CLOSE = 444, HTTP_ILLEGAL = 451, HTTP_INTERNAL_SERVER_ERROR = 500,
  HTTP_METHOD_NOT_IMPLEMENTED = 501, HTTP_NOT_IMPLEMENTED = 501, HTTP_BAD_GATEWAY = 502,
  HTTP_SERVICE_UNAVAILABLE = 503, HTTP_GATEWAY_TIMEOUT = 504, HTTP_VERSION_NOT_SUPPORTED = 505,
  HTTP_INSUFFICIENT_STORAGE = 507,
}) do
  ngx[name] = value
end

-- Text of a value, of a list the text of all its elements; nil and what is wrong with it else.
local function text(value)
  local kind = type(value)
  if kind == "string" then
    return value
  elseif kind == "number" or kind == "boolean" or kind == "nil" then
    return tostring(value)
  elseif value == null then
    return "null"
  elseif kind ~= "table" then
    return nil, kind
  end
  local words = {}
  for index, element in ipairs(value) do
    local word, problem = text(element)
    if not word then
      return nil, problem
    end
    words[index] = word
  end
  return concat(words)
end

function core.text(value)
  if value == nil then
    return ""
  end
  return (text(value))
end

local function words(name, ...)
  local all = {}
  for index = 1, select("#", ...) do
    local word, problem = text((select(index, ...)))
    if not word then
      local wanted = "string, number, boolean, nil, ngx.null, or array table expected, but got "
      error(format("bad argument #%d to '%s' (%s%s)", index, name, wanted, problem), 4)
    end
    all[index] = word
  end
  return concat(all)
end

-- The answer.

function core.has_output(state)
  return state.sent
end

local function put(name, line_end, ...)
  local state = core.state()
  if state and state.eof_seen then
    return nil, "seen eof"
  end
  local piece = words(name, ...) .. line_end
  local size = state.size + #piece
  if size > MOST then
    error("the output has more than " .. MOST .. " bytes", 3)
  end
  state.size, state.sent = size, true
  state.out[#state.out + 1] = piece
  return 1
end

function ngx.say(...)
  core.need(REQUEST)
  return put("say", "\n", ...)
end

function ngx.print(...)
  core.need(REQUEST)
  return put("print", "", ...)
end

-- All of an answer is sent when its script has ended.
function ngx.flush()
  core.need(REQUEST).sent = true
  return 1
end

ngx.send_headers = ngx.flush

function ngx.eof()
  local state = core.need(REQUEST)
  if state.eof_seen then
    return nil, "seen eof"
  end
  state.sent, state.eof_seen = true, true
  return 1
end

function core.deliver(state)
  if not state.answered then
    state.answered = true
    core.respond({ status = state.status or 200, headers = state.headers, body = concat(state.out) })
  end
end

-- An answer that says no more than its status.
local function settle(state, status)
  state.status = status
  if status >= 300 and status ~= 304 then
    state.headers["content-type"] = "text/plain; charset=utf-8"
    state.out = { status .. " " .. native.phrase(status) .. "\n" }
  end
end

local EXIT = core.set("rewrite", "access", "content", "header_filter")

function ngx.exit(status)
  local state = core.need(EXIT)
  local code = tonumber(status)
  if not code then
    error("bad argument #1 to 'exit' (number expected, got " .. type(status) .. ")", 2)
  end
  if state.phase == "header_filter" then
    return core.leave(state)
  end
  if code == ngx.ERROR then
    code = 500
  elseif code > 0 and (code < 200 or code > 599) then
    error("attempt to exit with status " .. code .. ": it is 0 or from 200 to 599", 2)
  end
  if code >= 200 and not state.sent then
    if code == 200 then
      state.status = state.status or 200
    else
      settle(state, code)
    end
  end
  if code >= 200 or state.sent or state.phase == "content" then
    core.deliver(state)
    return core.leave(state)
  end
  return core.leave(state, state.stage < core.last and 1 or 0)
end

local REDIRECTS = { [301] = true, [302] = true, [303] = true, [307] = true, [308] = true }

function ngx.redirect(uri, status)
  local state = core.need(REQUEST)
  status = status or 302
  if not REDIRECTS[status] then
    error("only ngx.HTTP_MOVED_TEMPORARILY, ngx.HTTP_MOVED_PERMANENTLY, ngx.HTTP_PERMANENT_REDIRECT, "
      .. "ngx.HTTP_SEE_OTHER, and ngx.HTTP_TEMPORARY_REDIRECT are allowed", 2)
  end
  if state.sent then
    error("attempt to call ngx.redirect after sending out the headers", 2)
  end
  core.set_header(state, "location", tostring(uri), 3)
  settle(state, status)
  core.deliver(state)
  return core.leave(state)
end

-- The head of the answer.

local function header_name(key, level)
  if type(key) ~= "string" then
    error("the name of a header is a text, not a " .. type(key), level)
  end
  return (key:lower():gsub("_", "-"))
end

local function check(name, value, level)
  if type(value) == "table" then
    for _, element in ipairs(value) do
      check(name, element, level + 1)
    end
    return
  end
  if type(value) ~= "string" and type(value) ~= "number" and type(value) ~= "boolean" then
    error("the value of the header '" .. name .. "' is a " .. type(value), level)
  end
  if tostring(value):find("[%z\1-\8\10-\31\127]") then
    error("the value for the header '" .. name .. "' holds a line break or another control character", level)
  end
end

local function plain(value)
  if type(value) == "boolean" then
    return tostring(value)
  end
  return value
end

-- What the gateway writes itself.
local OURS = core.set("connection", "transfer-encoding", "keep-alive", "upgrade", "te", "trailer", "proxy-connection",
  "proxy-authenticate", "proxy-authorization", "expect")

-- Before there is an answer, kept for it; else changed at once. An empty list is no value.
function core.set_header(state, name, value, level)
  -- How content is framed the gateway says itself.
  if name == "content-length" then
    return
  end
  if type(value) == "table" and #value == 0 then
    value = nil
  end
  if value ~= nil then
    if not name:find("^[%w!#$%%&'*+.^_`|~-]+$") then
      error("'" .. name:gsub("%c", "?") .. "' is no name of a header", level)
    end
    if OURS[name] then
      error("the header '" .. name .. "' is written by the gateway itself", level)
    end
    check(name, value, level + 1)
    value = plain(value)
  elseif OURS[name] then
    return
  end
  if state.phase ~= "header_filter" then
    state.headers[name] = value
  elseif value == nil then
    core.response:remove_header(name)
  else
    core.response:set_header(name, value)
  end
end

local function get_header(state, name)
  local phase = state.phase
  if phase == "header_filter" then
    local values = core.response:values(name)
    return #values > 1 and values or values[1]
  elseif phase == "body_filter" or phase == "log" then
    return state.given and state.given:header(name)
  end
  return state.headers[name]
end

local WRITE = core.set("rewrite", "access", "content", "header_filter")

ngx.header = setmetatable({}, {
  __index = function(_, key)
    return get_header(core.need(EXCHANGE), header_name(key, 3))
  end,
  __newindex = function(_, key, value)
    core.set_header(core.need(WRITE), header_name(key, 3), value, 3)
  end,
})

local function get_status(state)
  local phase = state.phase
  if phase == "header_filter" then
    return core.response.status
  elseif phase == "log" then
    return state.facts.status
  elseif phase == "body_filter" then
    return state.given and state.given.status or 0
  end
  return state.status or 0
end

core.get_status = get_status

local function set_status(state, value)
  local status = tonumber(value)
  if not status or status < 200 or status > 599 then
    error("ngx.status is a number from 200 to 599, not " .. tostring(value), 3)
  end
  if state.phase == "header_filter" then
    core.response.status = status
  else
    state.status = status
  end
end

ngx.arg = setmetatable({}, {
  __index = function(_, place)
    local state = core.need(core.BODY)
    if place == 1 then
      return state.piece
    end
    return place == 2 and state.eof or nil
  end,
  __newindex = function(_, place, value)
    local state = core.need(core.BODY)
    if place == 1 then
      local known, problem = text(value == nil and "" or value)
      if not known then
        error("bad chunk data type: " .. problem, 2)
      end
      state.piece = known
    elseif place == 2 then
      state.eof = value and true or false
    end
  end,
})
core.BODY = core.set("body_filter")

-- Fields of `ngx` that are of the exchange. Whatever else a script sets is its own.
setmetatable(ngx, {
  __index = function(_, key)
    if key == "status" then
      return get_status(core.need(EXCHANGE))
    elseif key == "ctx" then
      return core.need(EXCHANGE).ctx
    elseif key == "headers_sent" then
      local state = core.need(EXCHANGE)
      return not REQUEST[state.phase] or state.sent == true
    elseif key == "is_subrequest" then
      return false
    end
  end,
  __newindex = function(table, key, value)
    if key == "status" then
      set_status(core.need(WRITE), value)
    elseif key == "ctx" then
      if type(value) ~= "table" then
        error("attempt to assign a non-table value to ngx.ctx", 2)
      end
      core.need(EXCHANGE).ctx = value
    elseif key == "headers_sent" then
      error("headers_sent cannot be set", 2)
    else
      rawset(table, key, value)
    end
  end,
})

-- The log.

local LEVELS = { [5] = "warn", [6] = "info", [7] = "info", [8] = "debug" }

local function log_words(...)
  local all = {}
  for index = 1, select("#", ...) do
    local word = (select(index, ...))
    all[index] = word == null and "null" or tostring(word)
  end
  return concat(all)
end

local function write(level, place, ...)
  local info = getinfo(place + 1, "Sl")
  local where = info and info.short_src .. ":" .. info.currentline .. ": " or ""
  core.log[LEVELS[level] or "error"](where .. log_words(...))
end

function ngx.log(level, ...)
  if type(level) ~= "number" or level < 0 or level > 8 then
    error("bad argument #1 to 'log' (a log level from ngx.STDERR to ngx.DEBUG is expected)", 2)
  end
  write(level, 2, ...)
end

function print(...)
  write(ngx.NOTICE, 2, ...)
end
