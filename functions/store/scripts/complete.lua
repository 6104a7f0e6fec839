-- Ends an audit in one step: the report is stored, findings live on, the report waits to be told, what has to be judged
-- again is pending. A second end of the same audit changes nothing.
-- KEYS: audit, signals, work, audits, findings, life, open, closed, log, untold, last, counters, dead, due, record, list
-- ARGV: header (JSON), report, then the content of each finding, then the signals to judge again
-- Returns 1, or 0 where the audit had ended before.
local h = cjson.decode(ARGV[1])
if redis.call('HGET', KEYS[1], 'state') == 'done' then return 0 end
local severities = {critical = 0, warning = 1, info = 2}
local transitions = {}

local function note(kind, fp, code)
  if kind ~= 'ongoing' then -- what only goes on is no transition
    transitions[#transitions + 1] = {fingerprint = fp, kind = kind}
    redis.call('XADD', KEYS[9], 'MAXLEN', '~', h.log, '*', 'fingerprint', fp, 'kind', kind, 'audit', h.audit, 'at', int(h.current), 'code', code)
  end
end

local function keep(fp, life, content)
  redis.call('HSET', KEYS[6], fp, cjson.encode(life))
  if content then redis.call('HSET', KEYS[5], fp, content) end
  redis.call('ZADD', KEYS[7], severities[life.severity], fp)
  redis.call('ZREM', KEYS[8], fp)
end

for i, f in ipairs(h.findings) do
  local content = ARGV[2 + i]
  local raw = redis.call('HGET', KEYS[6], f.fingerprint)
  local life = raw and cjson.decode(raw)
  if not life then
    life = {state = 'open', first = h.current, count = 1, reopened = 0, first_audit = h.audit}
    note('opened', f.fingerprint, f.code)
  elseif h.current < life.last then
    content = false -- a late end of an older look: a newer one knows better
  elseif life.state ~= 'open' then
    life.state, life.closed = 'open', nil
    life.count, life.reopened = life.count + 1, life.reopened + 1
    note('reopened', f.fingerprint, f.code)
  else
    life.count = life.count + 1
    if life.verdict == 'unknown' and f.verdict == 'fail' then
      note('confirmed', f.fingerprint, f.code)
    elseif f.verdict == 'fail' and severities[f.severity] < severities[life.severity] then
      note('worsened', f.fingerprint, f.code)
    else
      note('ongoing', f.fingerprint, f.code)
    end
    if life.verdict == 'fail' and f.verdict == 'unknown' then -- in doubt now, but what failed has not passed
      f.verdict, f.severity, content = 'fail', life.severity, nil
    end
  end
  if content ~= false then
    life.last, life.audit, life.scope = h.current, h.audit, h.scope
    life.code, life.severity, life.verdict, life.subject = f.code, f.severity, f.verdict, f.subject
    keep(f.fingerprint, life, content)
  end
end

for _, r in ipairs(h.resolve) do
  -- only what nobody has touched since it was compared
  if redis.call('HGET', KEYS[6], r.fingerprint) == r.life then
    local life = cjson.decode(r.life)
    life.state, life.closed, life.audit = 'resolved', h.current, h.audit
    redis.call('HSET', KEYS[6], r.fingerprint, cjson.encode(life))
    redis.call('ZREM', KEYS[7], r.fingerprint)
    redis.call('ZADD', KEYS[8], int(h.current), r.fingerprint)
    note('resolved', r.fingerprint, life.code)
  end
end

local previous = redis.call('HGET', KEYS[11], h.scope)
local whole = redis.call('HGET', KEYS[11], 'cluster')
if not previous or cjson.decode(previous).current <= h.current then
  redis.call('HSET', KEYS[11], h.scope, h.last)
end
redis.call('HSET', KEYS[1], 'audit', h.audit, 'state', 'done', 'scope', h.scope, 'report', ARGV[2], 'completed', int(h.now),
  'transitions', #transitions > 0 and cjson.encode(transitions) or '[]', 'previous', previous or '', 'whole', whole or '', 'gaps', h.gaps)
redis.call('HDEL', KEYS[1], 'lead')
redis.call('ZADD', KEYS[4], int(h.now), h.audit)
redis.call('ZADD', KEYS[10], int(h.now), h.audit)
redis.call('ZREM', KEYS[3], h.audit)
if h.dead then
  redis.call('HSET', KEYS[1], 'why', h.dead)
  redis.call('ZADD', KEYS[13], int(h.now), h.audit) -- its signals are kept, so that it can be replayed
else
  redis.call('DEL', KEYS[2])
end
redis.call('HINCRBY', KEYS[12], 'audits_' .. h.verdict, 1)

if h.again then
  for i = 3 + #h.findings, #ARGV do
    join({due = KEYS[14], record = KEYS[15], list = KEYS[16], slot = h.again.slot, fresh = h.again.audit, now = int(h.now),
      at = int(h.again.due), span = int(h.again.span), baseline = h.again.baseline, rank = h.again.ranks[i - 2 - #h.findings],
      signal = ARGV[i], most = h.again.most})
  end
  local round = tonumber(redis.call('HGET', KEYS[15], 'round'))
  redis.call('HSET', KEYS[15], 'round', int(math.max(round, h.again.round)), 'follows', h.audit)
end
return 1
