-- `ngx.var`: what is known of an exchange, under the names that nginx has for it.
local native, ngx, core = ...

local request, response = core.request, core.response
local error, setmetatable, tonumber, tostring, type = error, setmetatable, tonumber, tostring, type
local format = string.format
local REQUEST, EXCHANGE = core.REQUEST, core.EXCHANGE

local function header(source, name)
  return source:header((name:gsub("_", "-")))
end

local function some(text)
  return text ~= "" and text or nil
end

local function query(source)
  return some(source.query)
end

local function path(source)
  return native.unescape_path(source.path)
end

local function protocol(source)
  return "HTTP/" .. (source.version == "2" and "2.0" or source.version)
end

local function hex(bytes)
  return (bytes:gsub(".", function(byte)
    return format("%02x", byte:byte())
  end))
end

core.hex = hex

-- The bytes of an address.
local function binary(address)
  local a, b, c, d = address:match("^(%d+)%.(%d+)%.(%d+)%.(%d+)$")
  if a then
    return string.char(a, b, c, d)
  end
  local left, right = address:match("^(.-)::(.*)$")
  local function groups(text)
    local bytes = {}
    for group in text:gmatch("%x+") do
      local number = tonumber(group, 16)
      bytes[#bytes + 1] = string.char(math.floor(number / 256), number % 256)
    end
    return bytes
  end
  local first, last = groups(left or address), groups(right or "")
  while #first + #last < 8 do
    first[#first + 1] = "\0\0"
  end
  return table.concat(first) .. table.concat(last)
end

local function seconds(ms)
  return ms and format("%.3f", ms / 1000)
end

local function zone()
  local now = os.time()
  local utc = os.date("!*t", now)
  utc.isdst = os.date("*t", now).isdst
  local minutes = math.floor(os.difftime(now, os.time(utc)) / 60)
  return minutes < 0 and "-" or "+", math.floor(math.abs(minutes) / 60), math.abs(minutes) % 60
end

-- By name: of the request, and of what is kept of the exchange.
local variables = {
  uri = path,
  document_uri = path,
  request_uri = function(source, state)
    return state.request_uri or source.target
  end,
  args = query,
  query_string = query,
  is_args = function(source)
    return source.query ~= "" and "?" or ""
  end,
  host = function(source)
    return (source.host:lower():gsub(":%d+$", ""))
  end,
  http_host = function(source)
    return some(source.host)
  end,
  scheme = function(source)
    return source.scheme
  end,
  https = function(source)
    return source.scheme == "https" and "on" or ""
  end,
  remote_addr = function(source)
    return source.client
  end,
  realip_remote_addr = function(source)
    return source.peer
  end,
  binary_remote_addr = function(source)
    return binary(source.client)
  end,
  remote_port = function(source)
    return source.port > 0 and tostring(source.port) or nil
  end,
  remote_user = function(source)
    local coded = (source:header("authorization") or ""):match("^[Bb]asic%s+(%S+)")
    local plain = coded and ngx.decode_base64(coded)
    return source.user or plain and plain:match("^([^:]*)")
  end,
  request_method = function(source)
    return source.method
  end,
  server_protocol = protocol,
  request = function(source)
    return source.method .. " " .. source.target .. " " .. protocol(source)
  end,
  request_id = function(source, state)
    if not state.request_id then
      state.request_id = source.id or hex(native.random(16))
    end
    return state.request_id
  end,
  request_body = function(_, state)
    return state.body and some(state.body)
  end,
  content_type = function(source)
    return source:header("content-type")
  end,
  content_length = function(source)
    return source:header("content-length")
  end,
  proxy_add_x_forwarded_for = function(source)
    local before = source:header("x-forwarded-for")
    return before and before .. ", " .. source.client or source.client
  end,
}

-- The same, where the request is not looked at.
local facts = {
  status = function(state)
    local status = core.get_status(state)
    return status > 0 and tostring(status) or nil
  end,
  request_time = function(state)
    return seconds(state.facts and state.facts.ms or native.now() - state.start * 1000)
  end,
  upstream_response_time = function(state)
    return state.facts and seconds(state.facts.upstream_ms)
  end,
  upstream_status = function(state)
    return state.facts and state.facts.upstream_ms and tostring(state.facts.status) or nil
  end,
  msec = function()
    return format("%.3f", native.now() / 1000)
  end,
  time_iso8601 = function()
    return os.date("%Y-%m-%dT%H:%M:%S") .. format("%s%02d:%02d", zone())
  end,
  time_local = function()
    return os.date("%d/%b/%Y:%H:%M:%S ") .. format("%s%02d%02d", zone())
  end,
  pid = function()
    return tostring(native.facts().pid)
  end,
}
facts.upstream_header_time = facts.upstream_response_time

-- Names that begin with a word.
local families = {
  http = function(source, name)
    return header(source, name)
  end,
  arg = function(source, name)
    for part in source.query:gmatch("[^&]+") do
      local key, value = part:match("^([^=]*)=(.*)$")
      if key and key:lower() == name:lower() then
        return value
      end
    end
  end,
  cookie = function(source, name)
    for part in (source:header("cookie") or ""):gmatch("[^;]+") do
      local key, value = part:match("^%s*([^=]-)%s*=%s*(.-)%s*$")
      if key == name then
        return value
      end
    end
  end,
}

local function sent(state, name)
  name = name:gsub("_", "-")
  if state.phase == "header_filter" then
    return response:header(name)
  elseif REQUEST[state.phase] then
    local value = state.headers[name]
    return type(value) == "table" and value[1] or value
  end
  return state.given and state.given:header(name)
end

-- What a script or another filter has set: `note.NAME` of conditions and of the access log.
local function noted(state, name)
  if state.phase == "body_filter" then
    return state.vars[name]
  end
  return request:variable(name)
end

local function get(state, name)
  local fact = facts[name]
  if fact then
    return fact(state)
  end
  local family, rest = name:match("^(%l+)_(.+)$")
  if family == "sent" and rest:sub(1, 5) == "http_" then
    return sent(state, rest:sub(6))
  elseif family == "upstream" and rest:sub(1, 5) == "http_" then
    return sent(state, rest:sub(6))
  end
  local variable, find = variables[name], families[family]
  if not variable and not find then
    return noted(state, name)
  end
  local source = core.source(state)
  if not source then
    return nil
  elseif variable then
    return variable(source, state)
  end
  return find(source, rest)
end

ngx.var = setmetatable({}, {
  __index = function(_, name)
    local state = core.need(EXCHANGE)
    return type(name) == "string" and get(state, name) or nil
  end,
  __newindex = function(_, name, value)
    local state = core.need(EXCHANGE)
    if type(name) ~= "string" then
      error("the name of a variable is a text", 2)
    end
    if name == "args" then
      return core.set_args(core.need(REQUEST), value == nil and "" or value)
    end
    local family = name:match("^(%l+)_")
    if variables[name] or facts[name] or families[family] or family == "sent" then
      error('variable "' .. name .. '" not changeable', 2)
    end
    local text = value == nil and "" or tostring(value)
    state.vars[name] = text
    if state.phase ~= "body_filter" and state.phase ~= "log" then
      request:set_variable(name, text)
    end
  end,
})
