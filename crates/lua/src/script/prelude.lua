-- What a script finds when it begins: the language without what could break out of its bounds, `require`, and the
-- modules of the program. Called once for each state with the functions of the program.
local native = ...

local facts = native.facts()
local guard = native.guard
local error, pcall, select, tostring, type = error, pcall, select, tostring, type
local concat = table.concat
local traceback, getinfo = debug.traceback, debug.getinfo
local getfenv_of, setfenv_of = debug.getfenv, debug.setfenv
local create, resume, running = coroutine.create, guard(coroutine.resume), coroutine.running

-- No userdata but those of the program.
newproxy = nil
-- No compiled code: whoever writes it can reach any memory.
string.dump = nil
string.format = guard(string.format)
-- What could take longer than its budget in C.
native.strings(native)
native.sort()

local function compile(chunk, name, _, ...)
  if type(chunk) == "function" then
    local parts = {}
    while true do
      local part = chunk()
      if part == nil or part == "" then
        break
      end
      if type(part) ~= "string" then
        return nil, "reader function must return a string"
      end
      parts[#parts + 1] = part
    end
    chunk = concat(parts)
  elseif type(chunk) ~= "string" then
    error("bad argument #1 to 'load': a string or a function is expected", 3)
  end
  local made, problem = native.compile(chunk, name or chunk)
  if made and select("#", ...) > 0 then
    setfenv(made, (...))
  end
  return made, problem
end
-- What calls a script is limited in its depth.
compile = guard(compile)

function load(chunk, name, mode, ...)
  return compile(chunk, name or (type(chunk) == "function" and "=(load)" or nil), mode, ...)
end

function loadstring(chunk, name)
  return compile(chunk, name)
end

dofile = nil
loadfile = nil
-- A trace that begins again after each call of the program costs more than it saves, unless much lies between them.
jit.opt.start("minstitch=40")
jit = { version = jit.version, version_num = jit.version_num, os = jit.os, arch = jit.arch }

debug = {
  traceback = traceback,
  -- Without the functions themselves: those of the program are not for scripts.
  getinfo = function(where, ...)
    local info
    if type(where) == "number" then
      info = getinfo(where + 1, ...)
    else
      info = getinfo(where, ...)
    end
    if info then
      info.func = nil
    end
    return info
  end,
}

if not facts.files then
  io = nil
  os.remove, os.rename, os.tmpname = nil, nil, nil
end
if not facts.processes then
  os.execute = nil
  if io then
    io.popen = nil
  end
end
os.exit, os.setlocale = nil, nil
-- The environment often holds secrets: a script sees what it is said to.
os.getenv = native.environment

-- LuaJIT has no hooks while it handles an error that came from one: a handler that does not end could not be stopped.
local overrun, protected = native.overrun, xpcall

function xpcall(body, handler, ...)
  if type(handler) ~= "function" then
    return protected(body, handler, ...)
  end
  return protected(body, function(problem)
    if overrun() then
      return problem
    end
    return handler(problem)
  end, ...)
end

coroutine.resume = resume

local function pass_on(made, good, ...)
  if good then
    return ...
  end
  local problem = ...
  error(problem, 0)
end

function coroutine.wrap(body)
  local made = create(body)
  return function(...)
    return pass_on(made, resume(made, ...))
  end
end

function print(...)
  local words = { ... }
  for index = 1, select("#", ...) do
    words[index] = tostring(words[index])
  end
  native.print(concat(words, "\t"))
end

-- Connections: functions of the program are their methods, whatever else a script sets is a field. Methods are looked
-- for first, for that is what connections are asked for all the time, until a script sets a field of such a name.
do
  local meta, methods, none = native.connection_meta, native.connection, native.no_fields
  local about = native.about_connection
  local hidden = false

  local function fields(conn)
    local found = getfenv_of(conn)
    if found == none then
      found = {}
      found.fd, found.remoteaddr = about(conn)
      setfenv_of(conn, found)
    end
    return found
  end

  function meta.__index(conn, name)
    if hidden then
      local value = fields(conn)[name]
      if value ~= nil then
        return value
      end
      return methods[name]
    end
    return methods[name] or fields(conn)[name]
  end

  function meta.__newindex(conn, name, value)
    hidden = hidden or methods[name] ~= nil
    fields(conn)[name] = value
  end
end

-- Modules.

local loaded, preload = {}, {}
package = { loaded = loaded, preload = preload, path = "", cpath = "" }
for _, name in ipairs({ "string", "table", "math", "os", "io", "debug", "bit", "coroutine", "jit" }) do
  loaded[name] = _G[name]
end
loaded._G = _G
loaded.package = package

local loading = {}

local load_module = guard(function(name)
  local opener, where = preload[name], ":preload:"
  if not opener then
    opener, where = native.source(name)
  end
  if not opener then
    error("module '" .. name .. "' not found:\n\tno field package.preload['" .. name .. "']" .. where, 3)
  end
  loading[name] = true
  local good, value = pcall(opener, name, where)
  loading[name] = nil
  if not good then
    error("error loading module '" .. name .. "': " .. tostring(value), 3)
  end
  if value ~= nil then
    loaded[name] = value
  elseif loaded[name] == nil then
    loaded[name] = true
  end
  return loaded[name]
end)

function require(name)
  local value = loaded[name]
  if value ~= nil then
    return value
  end
  if type(name) ~= "string" then
    error("bad argument #1 to 'require': a name is expected", 2)
  end
  if loading[name] then
    error("module '" .. name .. "' requires itself", 2)
  end
  return load_module(name)
end

-- The modules of the program: chunks that get its functions, made when somebody first asks for one. Those that had
-- other names up to version 0.6 of Silly have both.
for name, chunk in pairs(native.modules) do
  preload[name] = function()
    return chunk(native)
  end
end
for _, name in ipairs({ "net.tcp", "logger", "env", "time", "signal", "task" }) do
  preload["core." .. name] = function()
    return require("silly." .. name)
  end
end
for old, name in pairs({
  ["net.tls"] = "net.tls",
  ["net.udp"] = "net.udp",
  dns = "net.dns",
  http = "net.http",
  websocket = "net.websocket",
  jwt = "security.jwt",
  ["db.redis"] = "store.redis",
}) do
  for _, prefix in ipairs({ "core.", "silly." }) do
    preload[prefix .. old] = preload[prefix .. old] or function()
      return require("silly." .. name)
    end
  end
end
preload.core = function()
  return require("silly")
end
preload["silly.net"] = function()
  return setmetatable({}, {
    __index = function(_, name)
      local good, module = pcall(require, "silly.net." .. tostring(name))
      return good and module or nil
    end,
  })
end

-- SIGINT and SIGTERM end the program also if no script asks for signals.
require("silly.signal")
