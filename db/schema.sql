-- The database, column by column. This file explains; migrations/ is what runs, and a test compares the two.
-- Conventions: every table is STRICT; `digest` is a lower-case SHA-256 over the row's canonical text (docs/database.md);
-- `*_id` is a row number of this file only and never leaves it; `*_ns` is nanoseconds, `created_ns` and the like since
-- 1970 UTC; `*_bytes` is bytes; flags are 0 or 1.
PRAGMA application_id = 0x4C574442;  -- "LWDB": tells the file from another program's
PRAGMA user_version = 1;             -- number of the last migration that ran

-- Facts about the file itself.
CREATE TABLE meta (
  key TEXT PRIMARY KEY,   -- uuid, generation, created_by, created_ns
  value TEXT NOT NULL     -- uuid: random, names this file in provenance; generation: grows when what is served changes
) STRICT, WITHOUT ROWID;

-- Machines on which something was measured.
CREATE TABLE device (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,   -- over all columns but hard_digest
  hard_digest TEXT NOT NULL,     -- over the hard columns: equal means that numbers carry over
  kind TEXT NOT NULL,            -- hard: `cpu` or `cuda`
  arch TEXT NOT NULL,            -- hard: `znver3`, `sm_90a`
  features TEXT NOT NULL,        -- hard: instruction-set features, sorted, separated by blanks
  cores INTEGER NOT NULL,        -- hard: physical cores, or multiprocessors
  memory_bytes INTEGER NOT NULL, -- hard by its size class (next power of two): device memory; 0 on a CPU
  vendor TEXT NOT NULL,          -- soft from here on
  model TEXT NOT NULL,           -- marketing name; two spellings of one machine differ only softly
  target TEXT NOT NULL,          -- Target::text, what code is generated for
  threads INTEGER NOT NULL,      -- logical processors
  l1_bytes INTEGER NOT NULL,     -- data cache of a core, or shared memory of a multiprocessor
  l2_bytes INTEGER NOT NULL,
  l3_bytes INTEGER NOT NULL,     -- last cache, shared; 0 when there is none
  clock_khz INTEGER NOT NULL,    -- highest clock
  power_limit_mw INTEGER NOT NULL
) STRICT;

-- What makes machine code of a trace.
CREATE TABLE toolchain (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  generator TEXT NOT NULL,       -- hard: version of code generation
  compiler TEXT NOT NULL,        -- soft: `LLVM 19.1.7`, `NVRTC 12.9`
  driver TEXT NOT NULL,          -- soft: GPU driver; empty on a CPU
  flags TEXT NOT NULL            -- soft: code generation flags
) STRICT;

-- How numbers were measured. Numbers of different policies are never compared.
CREATE TABLE policy (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  text TEXT NOT NULL             -- every setting, canonical
) STRICT;

-- What is computed: a group of ops with dtypes, static dims and symbols.
CREATE TABLE workload (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,   -- SHA-256 of `text` alone
  text TEXT NOT NULL,            -- canonical text; kept so that a newer version can compute a newer key
  family TEXT NOT NULL,          -- word for people: `matmul`, `row_reduction`
  accuracy TEXT NOT NULL         -- accepted accuracy: `strict`, `tf32`
) STRICT;

-- A box of symbol values of a workload that one variant serves.
CREATE TABLE range (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,   -- over workload digest and guard
  workload_id INTEGER NOT NULL REFERENCES workload(id),
  guard TEXT NOT NULL,           -- Guard::text, e.g. `tokens in 1..64 % 8, align 16`
  alignment_bytes INTEGER NOT NULL,  -- that of the guard, for queries by hand
  weight REAL NOT NULL           -- share of use: budgets are divided by it; not part of the digest
) STRICT;
CREATE INDEX range_by_workload ON range(workload_id);

-- The guard's symbols, one row each, for queries by hand. `guard` is what counts; doctor compares.
CREATE TABLE range_symbol (
  range_id INTEGER NOT NULL REFERENCES range(id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  lo INTEGER NOT NULL,           -- inclusive
  hi INTEGER NOT NULL,           -- inclusive
  multiple_of INTEGER NOT NULL,  -- 1: no divisibility assumed
  PRIMARY KEY (range_id, name)
) STRICT, WITHOUT ROWID;

-- A concrete shape at which trials are made. It belongs to the workload, so that ranges can be split without loss.
CREATE TABLE probe (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,   -- over workload digest and values
  workload_id INTEGER NOT NULL REFERENCES workload(id),
  symbol_values TEXT NOT NULL,   -- `batch=4 tokens=17`, sorted by name
  role TEXT NOT NULL             -- low, high, middle, ragged, user, held_out; not part of the digest
) STRICT;
CREATE INDEX probe_by_workload ON probe(workload_id);

-- Template and picks for a workload. Artifacts are caches of it.
CREATE TABLE candidate (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,   -- over workload digest, template, picks and trace
  workload_id INTEGER NOT NULL REFERENCES workload(id),
  template_name TEXT NOT NULL,
  picks TEXT NOT NULL,           -- JSON object with sorted keys
  trace TEXT NOT NULL,           -- the steps as text, replayed to build it again
  is_default INTEGER NOT NULL    -- 1: the template's default picks; not part of the digest
) STRICT;
CREATE INDEX candidate_by_workload ON candidate(workload_id);

-- One tuning run. The only rows besides best, wanted and meta that change.
CREATE TABLE run (
  id INTEGER PRIMARY KEY AUTOINCREMENT,  -- what `loopwright resume` is given; never used twice
  digest TEXT NOT NULL UNIQUE,   -- random: a run is an event
  command TEXT NOT NULL,         -- command line, to resume it
  seed INTEGER NOT NULL,         -- all 64 bits
  budget_s REAL NOT NULL,        -- 0: none
  rigor TEXT NOT NULL,           -- estimate, measure, patient, exhaustive
  state TEXT NOT NULL,           -- running, finished, interrupted, failed; `running` without a writer was killed
  search_state TEXT NOT NULL,    -- JSON of the search, written at least once a round
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  generator TEXT NOT NULL,
  device_id INTEGER REFERENCES device(id),
  toolchain_id INTEGER REFERENCES toolchain(id),
  policy_id INTEGER REFERENCES policy(id),
  started_ns INTEGER NOT NULL,
  ended_ns INTEGER NOT NULL      -- 0 while it runs
) STRICT;

-- One attempt to build, verify and measure a candidate at a probe. Bad outcomes are remembered like good ones.
CREATE TABLE trial (
  id INTEGER PRIMARY KEY,        -- order of commit
  digest TEXT NOT NULL UNIQUE,   -- over all columns
  candidate_id INTEGER NOT NULL REFERENCES candidate(id),
  probe_id INTEGER NOT NULL REFERENCES probe(id),
  device_id INTEGER NOT NULL REFERENCES device(id),
  toolchain_id INTEGER NOT NULL REFERENCES toolchain(id),
  policy_id INTEGER NOT NULL REFERENCES policy(id),
  run_id INTEGER NOT NULL REFERENCES run(id),
  sequence INTEGER NOT NULL,     -- position within the run
  outcome TEXT NOT NULL CHECK (outcome IN ('ok', 'rejected', 'compile_error', 'launch_error', 'timeout', 'crash',
    'wrong_result', 'out_of_bounds', 'nondeterministic', 'resource')),
  error_code INTEGER NOT NULL,   -- ErrorCode; 0 when ok
  error TEXT NOT NULL,           -- message; empty when ok
  samples_ns BLOB NOT NULL,      -- raw times, little-endian doubles, in the order measured
  n INTEGER NOT NULL,            -- number of samples; 0: not measured
  min_ns REAL NOT NULL,
  median_ns REAL NOT NULL,
  p10_ns REAL NOT NULL,
  p90_ns REAL NOT NULL,
  mad_ns REAL NOT NULL,          -- median absolute deviation
  compile_ns REAL NOT NULL,      -- time to build; 0: taken from a cache
  clock_before_khz INTEGER NOT NULL,  -- 0: not known
  clock_after_khz INTEGER NOT NULL,
  throttled INTEGER NOT NULL,
  created_ns INTEGER NOT NULL,
  UNIQUE (run_id, sequence)
) STRICT;
CREATE INDEX trial_by_candidate ON trial(candidate_id);

-- One comparison of a candidate's results with the reference.
CREATE TABLE verification (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  candidate_id INTEGER NOT NULL REFERENCES candidate(id),
  probe_id INTEGER NOT NULL REFERENCES probe(id),
  device_id INTEGER NOT NULL REFERENCES device(id),
  toolchain_id INTEGER NOT NULL REFERENCES toolchain(id),
  run_id INTEGER NOT NULL REFERENCES run(id),
  seed INTEGER NOT NULL,         -- of the random inputs
  reference TEXT NOT NULL,       -- what it was compared with
  max_abs_error REAL NOT NULL,
  max_rel_error REAL NOT NULL,
  max_ulp_error REAL NOT NULL,   -- in units of the output's last place; 0: not computed
  tolerance TEXT NOT NULL,
  red_zones_clean INTEGER NOT NULL,  -- nothing was written around any buffer
  repeatable INTEGER NOT NULL,       -- two runs gave the same bits, where that is promised
  passed INTEGER NOT NULL,
  detail TEXT NOT NULL,          -- first wrong element, and the like
  created_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX verification_by_candidate ON verification(candidate_id);

-- What is served: the winner of a range on a device with a toolchain under a policy.
CREATE TABLE best (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL,          -- over all columns: a damaged row is noticed and not served
  range_id INTEGER NOT NULL REFERENCES range(id),
  device_id INTEGER NOT NULL REFERENCES device(id),
  toolchain_id INTEGER NOT NULL REFERENCES toolchain(id),
  policy_id INTEGER NOT NULL REFERENCES policy(id),
  candidate_id INTEGER NOT NULL REFERENCES candidate(id),
  median_ns REAL NOT NULL,       -- at the range's main probe
  default_median_ns REAL NOT NULL,
  speedup REAL NOT NULL,         -- over the default, geometric mean of the range's probes; never below 1
  worst_loss REAL NOT NULL,      -- 0.03: 3 % slower than the best known at the worst held-out probe
  mean_loss REAL NOT NULL,
  held_out_probes INTEGER NOT NULL,  -- how many probes the losses stand on
  rigor TEXT NOT NULL,
  complete INTEGER NOT NULL,     -- the search was not cut short by its budget
  verified INTEGER NOT NULL,     -- built and compared here; only such rows are served
  state TEXT NOT NULL CHECK (state IN ('active', 'stale', 'demoted', 'blocked')),
  run_id INTEGER REFERENCES run(id),
  updated_ns INTEGER NOT NULL,
  UNIQUE (range_id, device_id, toolchain_id, policy_id)
) STRICT;
CREATE INDEX best_by_candidate ON best(candidate_id);

-- Machine code of a candidate: a cache, rebuilt from the trace whenever it is missing.
CREATE TABLE artifact (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL,          -- over header and uncompressed image: content address
  candidate_id INTEGER NOT NULL REFERENCES candidate(id),
  toolchain_id INTEGER NOT NULL REFERENCES toolchain(id),
  target TEXT NOT NULL,          -- Target::text
  header TEXT NOT NULL,          -- Artifact::header_text
  image BLOB NOT NULL,           -- zstd
  image_bytes INTEGER NOT NULL,  -- uncompressed
  origin TEXT NOT NULL,          -- empty: built here; else uuid of the database it came from: not loaded unasked
  created_ns INTEGER NOT NULL,
  UNIQUE (candidate_id, toolchain_id, target)
) STRICT;
CREATE INDEX artifact_by_digest ON artifact(digest);

-- What happened to rows of other files.
CREATE TABLE provenance (
  id INTEGER PRIMARY KEY,
  table_name TEXT NOT NULL,
  row_digest TEXT NOT NULL,
  origin TEXT NOT NULL,          -- uuid of the other database
  action TEXT NOT NULL,          -- inserted, replaced, kept, unverified, ignored
  reason TEXT NOT NULL,          -- policy, and what the person said
  created_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX provenance_by_row ON provenance(row_digest);

-- Misses of the runtime: what the next tuning run should look at. Not key facts: no digest.
CREATE TABLE wanted (
  id INTEGER PRIMARY KEY,
  workload_id INTEGER NOT NULL REFERENCES workload(id),
  symbol_values TEXT NOT NULL,
  count INTEGER NOT NULL,
  last_seen_ns INTEGER NOT NULL,
  UNIQUE (workload_id, symbol_values)
) STRICT;

-- Candidates never to be tried or served again.
CREATE TABLE blocklist (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,   -- over candidate, device_hard and generator
  candidate TEXT NOT NULL,       -- digest, not a row: it may be blocked before it is known here
  device_hard TEXT NOT NULL,     -- hard digest of the device; empty: everywhere
  generator TEXT NOT NULL,       -- only for this generator version; empty: for ever
  reason TEXT NOT NULL,
  created_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX blocklist_by_candidate ON blocklist(candidate);

-- All that a program without the compiler needs to run a whole graph.
CREATE TABLE plan (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,   -- over name, graph_digest and plan_json
  name TEXT NOT NULL,
  graph_digest TEXT NOT NULL,    -- SHA-256 of graph_text
  graph_text TEXT NOT NULL,
  plan_json TEXT NOT NULL,       -- kernels in order, workload digests, buffer wiring
  created_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX plan_by_name ON plan(name);
CREATE INDEX plan_by_graph ON plan(graph_digest);
