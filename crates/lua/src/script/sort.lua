-- `table.sort`: by merging, in time that no order of the elements makes longer than n log n. That of LuaJIT takes the
-- square of n for some orders, without a look at the budget. Equal elements stay in their order.
local error, rawget, rawset, type = error, rawget, rawset, type

local function less(a, b)
  return a < b
end

-- Elements that are put in order by insertion.
local RUN = 8

local function insert(list, from, to, before)
  for index = from + 1, to do
    local value, place = list[index], index
    while place > from and before(value, list[place - 1]) do
      list[place] = list[place - 1]
      place = place - 1
    end
    list[place] = value
  end
end

local function merge(source, target, from, middle, to, before)
  local left, right = from, middle + 1
  for place = from, to do
    if left <= middle and (right > to or not before(source[right], source[left])) then
      target[place] = source[left]
      left = left + 1
    else
      target[place] = source[right]
      right = right + 1
    end
  end
end

function table.sort(list, order)
  if type(list) ~= "table" then
    error("bad argument #1 to 'sort' (table expected, got " .. type(list) .. ")", 2)
  elseif order ~= nil and type(order) ~= "function" then
    error("bad argument #2 to 'sort' (function expected, got " .. type(order) .. ")", 2)
  end
  local before, count = order or less, #list
  if count < 2 then
    return
  end
  -- In tables of its own: an order that fails in the middle leaves the list as it was.
  local source, target = {}, {}
  for index = 1, count do
    source[index] = rawget(list, index)
  end
  for from = 1, count, RUN do
    local to = from + RUN - 1
    insert(source, from, to < count and to or count, before)
  end
  local width = RUN
  while width < count do
    for from = 1, count, 2 * width do
      local middle, to = from + width - 1, from + 2 * width - 1
      merge(source, target, from, middle < count and middle or count, to < count and to or count, before)
    end
    source, target, width = target, source, 2 * width
  end
  for index = 1, count do
    rawset(list, index, source[index])
  end
end
