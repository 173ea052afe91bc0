-- `ngx.req`, `ngx.resp` and `ngx.exec`: the request and the head of the answer.
local native, ngx, core = ...

local request = core.request
local REQUEST, EXCHANGE = core.REQUEST, core.EXCHANGE
local error, ipairs, next, pairs, rawget, setmetatable = error, ipairs, next, pairs, rawget, setmetatable
local tonumber, tostring, type, unpack = tonumber, tostring, type, unpack
local concat, format = table.concat, string.format

-- How many headers and arguments a script gets if it does not say.
local MOST = 100

local HEAD = core.set("rewrite", "access", "content", "header_filter", "log", "body_filter")
local BEFORE = core.set("rewrite", "access")

ngx.req, ngx.resp = {}, {}
local req, resp = ngx.req, ngx.resp

local METHODS = {
  GET = 2, HEAD = 4, POST = 8, PUT = 16, DELETE = 32, MKCOL = 64, COPY = 128, MOVE = 256, OPTIONS = 512,
  PROPFIND = 1024, PROPPATCH = 2048, LOCK = 4096, UNLOCK = 8192, PATCH = 16384, TRACE = 32768,
}
local NAMES = {}
for name, number in pairs(METHODS) do
  ngx["HTTP_" .. name] = number
  NAMES[number] = name
end

-- Several values of a name become a list.
local function add(all, name, value)
  local known = all[name]
  if known == nil then
    all[name] = value
  elseif type(known) == "table" then
    known[#known + 1] = value
  else
    all[name] = { known, value }
  end
end

-- Names of headers without case, and with underscores for dashes.
local any_case = {
  __index = function(all, name)
    if type(name) ~= "string" then
      return nil
    end
    return rawget(all, (name:lower():gsub("_", "-")))
  end,
}

local function headers(lines, count, most, raw)
  local all = {}
  for index = 1, #lines, 2 do
    local name = lines[index]
    add(all, raw and name or name:lower(), lines[index + 1])
  end
  local truncated = most > 0 and count > most and "truncated" or nil
  return raw and all or setmetatable(all, any_case), truncated
end

-- The first of the lines that were kept.
local function first(lines, most)
  local count = #lines / 2
  if most == 0 or count <= most then
    return lines, count
  end
  local few = {}
  for index = 1, most * 2 do
    few[index] = lines[index]
  end
  return few, count
end

function req.get_headers(most, raw)
  local state = core.need(HEAD)
  most = most or MOST
  local source = core.source(state)
  if source == request then
    local lines, count = native.request_lines(most)
    return headers(lines, count, most, raw)
  end
  local lines, count = first(source and source.lines or {}, most)
  return headers(lines, count, most, raw)
end

function resp.get_headers(most, raw)
  local state = core.need(EXCHANGE)
  most = most or MOST
  if state.phase == "header_filter" then
    local lines, count = native.response_lines(most)
    return headers(lines, count, most, raw)
  end
  if REQUEST[state.phase] then
    local lines = {}
    for name, value in pairs(state.headers) do
      for _, one in pairs(type(value) == "table" and value or { value }) do
        lines[#lines + 1] = name
        lines[#lines + 1] = tostring(one)
      end
    end
    return headers(lines, #lines / 2, 0, raw)
  end
  local lines, count = first(state.given and state.given.lines or {}, most)
  return headers(lines, count, most, raw)
end

function resp.add_header(name, value)
  local state = core.need(core.set("rewrite", "access", "content", "header_filter"))
  local values = type(value) == "table" and value or { value }
  local known = ngx.header[name]
  local all = type(known) == "table" and { unpack(known) } or { known }
  for _, one in ipairs(values) do
    all[#all + 1] = one
  end
  core.set_header(state, (tostring(name):lower():gsub("_", "-")), all, 3)
end

function req.get_method()
  local source = core.source(core.need(EXCHANGE))
  return source and source.method
end

function req.set_method(method)
  core.need(REQUEST)
  local name = NAMES[method]
  if not name then
    error("unsupported HTTP method: " .. tostring(method), 2)
  end
  request.method = name
end

function req.http_version()
  local source = core.source(core.need(EXCHANGE))
  return source and tonumber(source.version)
end

function req.raw_header(no_line)
  local source = core.source(core.need(EXCHANGE))
  if not source then
    return nil
  end
  local parts = { no_line and "" or format("%s %s HTTP/%s\r\n", source.method, source.target, source.version) }
  local lines = source == request and native.request_lines(0) or source.lines
  for index = 1, #lines, 2 do
    parts[#parts + 1] = lines[index] .. ": " .. lines[index + 1] .. "\r\n"
  end
  parts[#parts + 1] = "\r\n"
  return concat(parts)
end

function req.start_time()
  return core.need(EXCHANGE).start
end

function req.is_internal()
  return core.need(EXCHANGE).internal == true
end

function req.set_header(name, value)
  core.need(REQUEST)
  if type(value) == "table" and next(value) == nil then
    value = nil
  end
  if value == nil then
    request:remove_header(name)
  else
    request:set_header(name, type(value) == "boolean" and tostring(value) or value)
  end
end

function req.clear_header(name)
  core.need(REQUEST)
  request:remove_header(name)
end

-- Arguments.

local function arguments(text, most)
  most = most or MOST
  local list, more = native.args(text, most)
  local all = {}
  for index = 1, #list, 2 do
    add(all, list[index], list[index + 1])
  end
  return all, more and "truncated" or nil
end

core.arguments = arguments

function req.get_uri_args(most)
  local source = core.source(core.need(EXCHANGE))
  return arguments(source and source.query or "", most)
end

local function remember(state)
  state.request_uri = state.request_uri or request.target
end

function core.set_args(state, args)
  remember(state)
  if type(args) == "table" then
    args = ngx.encode_args(args)
  end
  args = tostring(args)
  if args:find("[%z\1-\31\127]") then
    error("unsafe byte in the arguments: a control character", 3)
  end
  request.query = (args:gsub("[ #\128-\255]", function(byte)
    return format("%%%02X", byte:byte())
  end))
end

function req.set_uri_args(args)
  core.set_args(core.need(REQUEST), args)
end

-- Another path, as it reads without escapes.
local function set_path(state, uri)
  if type(uri) ~= "string" or uri == "" then
    error("attempt to use a URI that is none", 3)
  end
  local unsafe = uri:match("[%z\1-\31\127]")
  if unsafe then
    error(format('unsafe byte "0x%02x" in the URI', unsafe:byte()), 3)
  end
  remember(state)
  request.path = native.escape_uri(uri, 0)
end

local function reroute(state)
  -- Its phases are run again if the other route has the same filter.
  state.stage, state.internal = 0, true
  return core.leave(state, 2)
end

function req.set_uri(uri, jump)
  local state = core.need(jump and BEFORE or REQUEST)
  set_path(state, uri)
  if jump then
    return reroute(state)
  end
end

function ngx.exec(uri, args)
  local state = core.need(REQUEST)
  if state.sent then
    error("attempt to call ngx.exec after sending out response headers", 2)
  end
  if type(uri) == "string" and uri:sub(1, 1) == "@" then
    error("there are no named locations: name a path that has a route", 2)
  end
  local path, query = tostring(uri), nil
  if path:find("?", 1, true) then
    path, query = path:match("^(.-)%?(.*)$")
  end
  set_path(state, path)
  if args ~= nil and type(args) ~= "table" then
    args = tostring(args)
  elseif type(args) == "table" then
    args = ngx.encode_args(args)
  end
  if query and args and args ~= "" then
    args = query .. "&" .. args
  end
  core.set_args(state, args or query or "")
  return reroute(state)
end

-- Content.

local NO_BODY = "the content was not read: call ngx.req.read_body first"

function req.read_body()
  local state = core.need(REQUEST)
  if not state.read then
    -- What is larger stays where it is, as what OpenResty puts into a file.
    state.read, state.body = true, (request:body())
  end
end

function req.discard_body()
  core.need(REQUEST)
end

function req.get_body_data(most)
  local body = core.need(core.set("rewrite", "access", "content", "log")).body
  if body == "" then
    return nil
  end
  return body and most and body:sub(1, most) or body
end

function req.get_body_file()
  core.need(REQUEST)
  return nil
end

function req.get_post_args(most)
  local state = core.need(core.set("rewrite", "access", "content", "header_filter", "body_filter", "log"))
  if not state.read then
    error("no request body found; " .. NO_BODY, 2)
  end
  if not state.body then
    return nil, "the content is larger than scripts get"
  end
  return arguments(state.body, most)
end

local function replace(state, body)
  if not state.read then
    error(NO_BODY, 3)
  end
  if not request.has_body then
    error("a request without content cannot be given any", 3)
  end
  state.body, state.replaced = body, body
end

function req.set_body_data(body)
  replace(core.need(REQUEST), tostring(body))
end

function req.set_body_file()
  error("there are no files for content: use ngx.req.set_body_data", 2)
end

function req.init_body()
  core.need(REQUEST).pieces = {}
end

function req.append_body(piece)
  local pieces = core.need(REQUEST).pieces
  if not pieces then
    error("ngx.req.init_body comes first", 2)
  end
  pieces[#pieces + 1] = tostring(piece)
end

function req.finish_body()
  local state = core.need(REQUEST)
  if not state.pieces then
    error("ngx.req.init_body comes first", 2)
  end
  state.read = true
  replace(state, concat(state.pieces))
end

function req.socket()
  error("ngx.req.socket is not there: use ngx.req.read_body", 2)
end

ngx.location = {
  capture = function()
    error("ngx.location.capture is not there: use require('silly.net.http').get, or ngx.exec", 2)
  end,
}
ngx.location.capture_multi = ngx.location.capture
ngx.socket = {
  tcp = function()
    error("ngx.socket.tcp is not there: use require('silly.net.tcp').connect", 2)
  end,
  udp = function()
    error("ngx.socket.udp is not there: use require('silly.net.udp').connect", 2)
  end,
}
