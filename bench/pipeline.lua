-- 16 requests in each write; wrk counts every answer.
local batch

init = function()
  local requests = {}
  for i = 1, 16 do
    requests[i] = wrk.format("GET", "/")
  end
  batch = table.concat(requests)
end

request = function()
  return batch
end
