-- `silly.metrics.prometheus`: metrics that are registered as they are made, and what is known of the state itself.
local native = ...

local registry = require("silly.metrics.registry")

local all = registry.new()
local prometheus = {}

for _, kind in ipairs({ "counter", "gauge", "histogram" }) do
  local make = require("silly.metrics." .. kind)
  prometheus[kind] = function(name, help, labels, option)
    local made = make(name, help, labels, option)
    all:register(made)
    return made
  end
end

all:register({
  collect = function(_, buf)
    local used, limit = native.memory()
    local tasks = 0
    for _ in pairs(native.all()) do
      tasks = tasks + 1
    end
    local function add(name, help, kind, value)
      buf[#buf + 1] = { name = name, help = help, kind = kind, value = value }
    end
    add("silly_tasks", "Tasks that have not ended.", "gauge", tasks)
    add("silly_tasks_runnable", "Tasks that run next.", "gauge", native.ready())
    add("silly_memory_bytes", "Memory of the state.", "gauge", used)
    add("silly_memory_limit_bytes", "Memory that the state may use.", "gauge", limit)
    add("process_cpu_seconds_total", "CPU time of the process.", "counter", os.clock())
  end,
})

function prometheus.registry()
  return all
end

function prometheus.gather()
  return all:gather()
end

return prometheus
