// Drives one unmodified JavaScript SDK through a scenario; what drive.py is for Python, with the same scenarios,
// steps and output, so that one table of expectations reads both.
//
//     node drive.mjs PACKAGES VERSION API_URL API_KEY SCENARIO [ARGUMENT...]
//
// PACKAGES is the folder that holds node_modules; VERSION picks e2b-VERSION in it (two versions live side by side).
import { createRequire } from 'node:module'
import { pathToFileURL } from 'node:url'
import { createInterface } from 'node:readline'
import { resolve } from 'node:path'

// The template that the simulator always has.
const TEMPLATE = 'tpl-000000000000000000000001'
const METADATA = { team: 'a b', user: 'ü/1', query: 'x&y=z', share: '100%', quote: '"\\', empty: '' }
const ID = /\b[0-9a-f]{32}(?:-g[0-9a-z]+)?\b/g

const [packages, version, url, key, scenario, ...args] = process.argv.slice(2)
// The data plane points at the same address: a call that strayed there would be seen, not lost.
Object.assign(process.env, { E2B_API_URL: url, E2B_API_KEY: key, E2B_SANDBOX_URL: url })
const from = createRequire(pathToFileURL(resolve(packages, 'package.json')))
const { Sandbox } = from(`e2b-${version}`)
const retries = process.env.DRIVE_RETRIES
const lease = process.env.DRIVE_LEASE
const options = {
  ...(retries === undefined ? {} : { retries: Number(retries) }),
  ...(lease === undefined ? {} : { headers: { 'X-Cube-Lease-Id': lease } }),
}

// Stable names for ids, in order of appearance.
const names = new Map()
const nameOf = (id) => names.get(id) ?? (names.set(id, `<id ${names.size + 1}>`), names.get(id))
function hide(value) {
  if (typeof value === 'string') return value.replace(ID, nameOf)
  if (Array.isArray(value)) return value.map(hide)
  if (value === null || typeof value !== 'object') return value
  // Metadata is the client's: what looks like an id in there names nothing.
  return Object.fromEntries(Object.entries(value).map(([key, inner]) => [key, key === 'metadata' ? inner : hide(inner)]))
}
const emit = (step) => console.log(JSON.stringify(step))

const info = (of) => ({ id: of.sandboxId, template: of.templateId, state: of.state, metadata: of.metadata ?? {} })

// An SDK's answer as JSON: what is comparable, under names that all SDKs share.
function plain(value) {
  if (Array.isArray(value)) return value.map(plain)
  if (value instanceof Sandbox) return { id: value.sandboxId }
  if (value !== null && typeof value === 'object' && 'templateId' in value) return info(value)
  return value ?? null
}

const failure = (error) => ({
  ok: false,
  error: error.constructor.name,
  message: hide(error.message),
  status: error.statusCode ?? null,
})

// Runs one call, reports it, and returns what it returned (undefined if it threw).
async function step(name, call) {
  let result
  try {
    result = await call()
  } catch (error) {
    emit({ step: name, ...failure(error) })
    return undefined
  }
  const ids = result instanceof Sandbox ? { ids: [result.sandboxId] } : {}
  emit({ step: name, ok: true, value: hide(plain(result)), ...ids })
  return result
}

async function pagesOf(query) {
  const pages = []
  const paginator = Sandbox.list(query)
  while (paginator.hasNext) pages.push(await paginator.nextItems())
  return pages
}

const sdk = {
  create: (metadata) => Sandbox.create(TEMPLATE, { timeoutMs: 300_000, metadata, ...options }),
  // Pause on timeout is `betaCreate` in the old SDK and `lifecycle` in the new one.
  createPausing: (metadata) =>
    Sandbox.betaCreate
      ? Sandbox.betaCreate(TEMPLATE, { timeoutMs: 300_000, metadata, autoPause: true, ...options })
      : Sandbox.create(TEMPLATE, { timeoutMs: 300_000, metadata, lifecycle: { onTimeout: 'pause', autoResume: true }, ...options }),
  list: async (metadata) => (await pagesOf({ query: { metadata, state: ['running'] } }))[0],
  pageSizes: async (metadata, limit) => (await pagesOf({ query: { metadata }, limit })).map((page) => page.length),
  connect: (id) => Sandbox.connect(id, { timeoutMs: 400_000, ...options }),
  getInfo: (id) => Sandbox.getInfo(id),
  setTimeout: (id, seconds) => Sandbox.setTimeout(id, seconds * 1000, options),
  pause: (id) => (Sandbox.pause ?? Sandbox.betaPause).call(Sandbox, id),
  kill: (id) => Sandbox.kill(id, options),
}

async function life() {
  const own = (await step('create', () => sdk.create(METADATA)))?.sandboxId
  if (own === undefined) return
  await step('list', () => sdk.list({ team: 'a b', query: 'x&y=z' }))
  await step('list nothing', () => sdk.list({ team: "nobody's" }))
  await step('get_info', () => sdk.getInfo(own))
  await step('connect', () => sdk.connect(own))
  await step('set_timeout', () => sdk.setTimeout(own, 600))
  await step('pause', () => sdk.pause(own))
  await step('get_info paused', () => sdk.getInfo(own))
  await step('connect again', () => sdk.connect(own))
  await step('get_info running', () => sdk.getInfo(own))
  const others = []
  for (let made = 0; made < 3; made += 1) others.push(await step('create pausing', () => sdk.createPausing({ page: '1' })))
  await step('pages', () => sdk.pageSizes({ page: '1' }, 2))
  for (const other of others) if (other) await step('kill other', () => sdk.kill(other.sandboxId))
  await step('kill', () => sdk.kill(own))
  await step('kill again', () => sdk.kill(own))
  await step('get_info killed', () => sdk.getInfo(own))
  await step('set_timeout killed', () => sdk.setTimeout(own, 60))
  await step('connect killed', () => sdk.connect(own))
}

async function foreign(id) {
  await step('get_info', () => sdk.getInfo(id))
  await step('connect', () => sdk.connect(id))
  await step('set_timeout', () => sdk.setTimeout(id, 60))
  await step('pause', () => sdk.pause(id))
  await step('list', () => sdk.list({}))
  await step('kill', () => sdk.kill(id))
}

async function create(count) {
  for (let made = 0; made < Number(count); made += 1) await step('create', () => sdk.create({ run: 'many' }))
}

async function kill(...ids) {
  for (const id of ids) await step('kill', () => sdk.kill(id))
}

function must(holds, what) {
  if (!holds) throw new Error(what)
}

// Rounds of the usual calls; the first that goes wrong ends it. Says 'ready' after the first whole round.
async function works(...ids) {
  let toldToStop = false
  process.stdin.on('end', () => (toldToStop = true)).resume()
  const own = ids.length ? undefined : (await sdk.create({ run: 'works' })).sandboxId
  let rounds = 0
  while (!toldToStop) {
    try {
      for (const id of own ? [own] : ids) {
        await sdk.setTimeout(id, 600)
        must((await sdk.getInfo(id)).sandboxId === id, 'get_info answered for another')
        must((await sdk.connect(id)).sandboxId === id, 'connect answered for another')
        must((await sdk.list({})).some((item) => item.sandboxId === id), 'the list left it out')
      }
    } catch (error) {
      emit({ step: 'works', ...failure(error), rounds })
      return
    }
    rounds += 1
    if (rounds === 1) emit({ step: 'ready', ok: true, value: null })
  }
  if (own) await step('kill', () => sdk.kill(own))
  emit({ step: 'works', ok: true, value: null, rounds })
}

async function session(run) {
  const sandbox = await step('create', () => sdk.createPausing({ session_id: run }))
  await obey({
    kill: () => sandbox.kill(),
    set_timeout: () => sandbox.setTimeout(0),
    connect: () => sdk.connect(sandbox.sandboxId),
    'connect and kill': async () => (await sdk.connect(sandbox.sandboxId)).kill(),
  })
}

async function late(id) {
  await obey({
    kill: () => sdk.kill(id),
    set_timeout: () => sdk.setTimeout(id, 0),
    'connect and kill': async () => (await sdk.connect(id)).kill(),
  })
}

// One step for each order, until there are no more.
async function obey(calls) {
  for await (const order of createInterface({ input: process.stdin })) await step(order, calls[order])
}

await { life, foreign, create, kill, works, session, late }[scenario](...args)
