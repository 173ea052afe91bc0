-- `silly.console`: a look into a running script, for whoever is on the same machine.
local native = ...

local tcp = require("silly.net.tcp")
local task = require("silly.task")
local silly = require("silly")
local logger = require("silly.logger")

-- Longest line.
local LINE = 4096

local function memory()
  return ("Lua Mem Used:%.2f KiB"):format(native.memory() / 1024)
end

local help = {
  { "HELP", "List command description. [HELP]" },
  { "PING", "Test connection alive. [PING <text>]" },
  { "GC", "Performs a full garbage-collection cycle. [GC]" },
  { "INFO", "Show all information of server. [INFO]" },
  { "TASK", "Show all task status and traceback. [TASK]" },
  { "INJECT", "INJECT code. [INJECT <path>]" },
  { "QUIT", "Quit the console. [QUIT]" },
}

local function list(own)
  return function()
    local lines = {}
    for _, entry in ipairs(help) do
      lines[#lines + 1] = entry[1] .. ": " .. entry[2]
    end
    for name in pairs(own) do
      lines[#lines + 1] = name:upper()
    end
    return lines
  end
end

local function ping(_, ...)
  return select("#", ...) > 0 and table.concat({ ... }, " ") or "PONG"
end

local function gc()
  collectgarbage()
  return memory()
end

local function info()
  return {
    "#Build",
    "version:" .. silly.version,
    "multiplexing_api:" .. silly.multiplexer,
    "memory_allocator:" .. silly.allocator,
    "timer_resolution:" .. silly.timerresolution .. " ms",
    "",
    "#Process",
    "process_id:" .. silly.pid,
    "worker:" .. silly.worker,
    "",
    "#Memory",
    memory(),
    "",
    "#Metrics",
    (require("silly.metrics.prometheus").gather()),
  }
end

local function tasks()
  local lines, count = {}, 0
  for thread, it in pairs(task.inspect()) do
    count = count + 1
    lines[#lines + 1] = ("Task %s - %s :\n%s\n"):format(tostring(thread), it.status, it.traceback)
  end
  table.insert(lines, 1, "#Task (" .. count .. ")")
  return lines
end

-- Who may read no files cannot have them run, either.
local function inject(_, path)
  if not path then
    return "ERR lost the filename"
  end
  if not native.facts().files then
    return "ERR the script may not read files (--allow files)"
  end
  local file, problem = io.open(path, "rb")
  if not file then
    return "ERR " .. problem
  end
  local text = file:read("*a")
  file:close()
  local chunk
  chunk, problem = load(text, "@" .. path, "t", setmetatable({}, { __index = _G }))
  if not chunk then
    return "ERR " .. problem
  end
  local good, why = silly.pcall(chunk)
  if not good then
    return ("Inject file:%s Fail\n%s"):format(path, why)
  end
  return ("Inject file:%s Success"):format(path)
end

local function quit()
  return nil
end

local function serve(all)
  return function(conn)
    logger.info("console come in:", conn.remoteaddr)
    conn:write("\nWelcome to console.\n\nType 'help' for help.\n\nconsole> ")
    while true do
      local line = conn:read("\n", nil, LINE)
      if not line then
        break
      end
      local words = {}
      for word in line:gmatch("%S+") do
        words[#words + 1] = word
      end
      local name = words[1] and words[1]:lower()
      -- A page in a browser of this machine can send lines here, but not without these.
      if name == "host:" or line:find("HTTP/%d") then
        break
      end
      local answer = ""
      if name then
        local act = all[name]
        if act then
          local good, said = silly.pcall(act, conn, unpack(words, 2))
          if good and said == nil then
            conn:write("Bye, Bye\n")
            break
          end
          answer = not good and "ERR " .. said or type(said) == "table" and table.concat(said, "\n") or tostring(said)
        else
          answer = "ERR unknown '" .. words[1] .. "', try help"
        end
        answer = answer .. "\n\n"
      end
      conn:write(answer .. "console> ")
    end
    conn:close()
    logger.info(conn.remoteaddr, "leave")
  end
end

local function is_here(addr)
  return addr:match("^127%.%d+%.%d+%.%d+:%d+$") or addr:match("^localhost:%d+$") or addr:match("^%[::1%]:%d+$")
    or addr:match("^unix:")
end

return function(settings)
  if type(settings) ~= "table" or type(settings.addr) ~= "string" then
    error("console missing addr", 2)
  end
  if not is_here(settings.addr) then
    error("a console listens at an address of this machine alone, such as 127.0.0.1:2323", 2)
  end
  local own = {}
  for name, act in pairs(settings.cmd or {}) do
    own[tostring(name):lower()] = act
  end
  local all = {
    help = list(own), ping = ping, gc = gc, info = info, task = tasks, inject = inject, quit = quit, exit = quit,
  }
  for name, act in pairs(own) do
    all[name] = act
  end
  return tcp.listen({ addr = settings.addr, accept = serve(all) })
end
