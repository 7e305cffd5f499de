-- Version 1. Never edited once released: a change is a new file. Explained in ../schema.sql.
CREATE TABLE meta (
  key TEXT PRIMARY KEY,
  value TEXT NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE device (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  hard_digest TEXT NOT NULL,
  kind TEXT NOT NULL,
  arch TEXT NOT NULL,
  features TEXT NOT NULL,
  cores INTEGER NOT NULL,
  memory_bytes INTEGER NOT NULL,
  vendor TEXT NOT NULL,
  model TEXT NOT NULL,
  target TEXT NOT NULL,
  threads INTEGER NOT NULL,
  l1_bytes INTEGER NOT NULL,
  l2_bytes INTEGER NOT NULL,
  l3_bytes INTEGER NOT NULL,
  clock_khz INTEGER NOT NULL,
  power_limit_mw INTEGER NOT NULL
) STRICT;
CREATE TABLE toolchain (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  generator TEXT NOT NULL,
  compiler TEXT NOT NULL,
  driver TEXT NOT NULL,
  flags TEXT NOT NULL
) STRICT;
CREATE TABLE policy (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  text TEXT NOT NULL
) STRICT;
CREATE TABLE workload (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  text TEXT NOT NULL,
  family TEXT NOT NULL,
  accuracy TEXT NOT NULL
) STRICT;
CREATE TABLE range (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  workload_id INTEGER NOT NULL REFERENCES workload(id),
  guard TEXT NOT NULL,
  alignment_bytes INTEGER NOT NULL,
  weight REAL NOT NULL
) STRICT;
CREATE INDEX range_by_workload ON range(workload_id);
CREATE TABLE range_symbol (
  range_id INTEGER NOT NULL REFERENCES range(id) ON DELETE CASCADE,
  name TEXT NOT NULL,
  lo INTEGER NOT NULL,
  hi INTEGER NOT NULL,
  multiple_of INTEGER NOT NULL,
  PRIMARY KEY (range_id, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE probe (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  workload_id INTEGER NOT NULL REFERENCES workload(id),
  symbol_values TEXT NOT NULL,
  role TEXT NOT NULL
) STRICT;
CREATE INDEX probe_by_workload ON probe(workload_id);
CREATE TABLE candidate (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  workload_id INTEGER NOT NULL REFERENCES workload(id),
  template_name TEXT NOT NULL,
  picks TEXT NOT NULL,
  trace TEXT NOT NULL,
  is_default INTEGER NOT NULL
) STRICT;
CREATE INDEX candidate_by_workload ON candidate(workload_id);
CREATE TABLE run (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  digest TEXT NOT NULL UNIQUE,
  command TEXT NOT NULL,
  seed INTEGER NOT NULL,
  budget_s REAL NOT NULL,
  rigor TEXT NOT NULL,
  state TEXT NOT NULL,
  search_state TEXT NOT NULL,
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  generator TEXT NOT NULL,
  device_id INTEGER REFERENCES device(id),
  toolchain_id INTEGER REFERENCES toolchain(id),
  policy_id INTEGER REFERENCES policy(id),
  started_ns INTEGER NOT NULL,
  ended_ns INTEGER NOT NULL
) STRICT;
CREATE TABLE trial (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  candidate_id INTEGER NOT NULL REFERENCES candidate(id),
  probe_id INTEGER NOT NULL REFERENCES probe(id),
  device_id INTEGER NOT NULL REFERENCES device(id),
  toolchain_id INTEGER NOT NULL REFERENCES toolchain(id),
  policy_id INTEGER NOT NULL REFERENCES policy(id),
  run_id INTEGER NOT NULL REFERENCES run(id),
  sequence INTEGER NOT NULL,
  outcome TEXT NOT NULL CHECK (outcome IN ('ok', 'rejected', 'compile_error', 'launch_error', 'timeout', 'crash',
    'wrong_result', 'out_of_bounds', 'nondeterministic', 'resource')),
  error_code INTEGER NOT NULL,
  error TEXT NOT NULL,
  samples_ns BLOB NOT NULL,
  n INTEGER NOT NULL,
  min_ns REAL NOT NULL,
  median_ns REAL NOT NULL,
  p10_ns REAL NOT NULL,
  p90_ns REAL NOT NULL,
  mad_ns REAL NOT NULL,
  compile_ns REAL NOT NULL,
  clock_before_khz INTEGER NOT NULL,
  clock_after_khz INTEGER NOT NULL,
  throttled INTEGER NOT NULL,
  created_ns INTEGER NOT NULL,
  UNIQUE (run_id, sequence)
) STRICT;
CREATE INDEX trial_by_candidate ON trial(candidate_id);
CREATE TABLE verification (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  candidate_id INTEGER NOT NULL REFERENCES candidate(id),
  probe_id INTEGER NOT NULL REFERENCES probe(id),
  device_id INTEGER NOT NULL REFERENCES device(id),
  toolchain_id INTEGER NOT NULL REFERENCES toolchain(id),
  run_id INTEGER NOT NULL REFERENCES run(id),
  seed INTEGER NOT NULL,
  reference TEXT NOT NULL,
  max_abs_error REAL NOT NULL,
  max_rel_error REAL NOT NULL,
  max_ulp_error REAL NOT NULL,
  tolerance TEXT NOT NULL,
  red_zones_clean INTEGER NOT NULL,
  repeatable INTEGER NOT NULL,
  passed INTEGER NOT NULL,
  detail TEXT NOT NULL,
  created_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX verification_by_candidate ON verification(candidate_id);
CREATE TABLE best (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL,
  range_id INTEGER NOT NULL REFERENCES range(id),
  device_id INTEGER NOT NULL REFERENCES device(id),
  toolchain_id INTEGER NOT NULL REFERENCES toolchain(id),
  policy_id INTEGER NOT NULL REFERENCES policy(id),
  candidate_id INTEGER NOT NULL REFERENCES candidate(id),
  median_ns REAL NOT NULL,
  default_median_ns REAL NOT NULL,
  speedup REAL NOT NULL,
  worst_loss REAL NOT NULL,
  mean_loss REAL NOT NULL,
  held_out_probes INTEGER NOT NULL,
  rigor TEXT NOT NULL,
  complete INTEGER NOT NULL,
  verified INTEGER NOT NULL,
  state TEXT NOT NULL CHECK (state IN ('active', 'stale', 'demoted', 'blocked')),
  run_id INTEGER REFERENCES run(id),
  updated_ns INTEGER NOT NULL,
  UNIQUE (range_id, device_id, toolchain_id, policy_id)
) STRICT;
CREATE INDEX best_by_candidate ON best(candidate_id);
CREATE TABLE artifact (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL,
  candidate_id INTEGER NOT NULL REFERENCES candidate(id),
  toolchain_id INTEGER NOT NULL REFERENCES toolchain(id),
  target TEXT NOT NULL,
  header TEXT NOT NULL,
  image BLOB NOT NULL,
  image_bytes INTEGER NOT NULL,
  origin TEXT NOT NULL,
  created_ns INTEGER NOT NULL,
  UNIQUE (candidate_id, toolchain_id, target)
) STRICT;
CREATE INDEX artifact_by_digest ON artifact(digest);
CREATE TABLE provenance (
  id INTEGER PRIMARY KEY,
  table_name TEXT NOT NULL,
  row_digest TEXT NOT NULL,
  origin TEXT NOT NULL,
  action TEXT NOT NULL,
  reason TEXT NOT NULL,
  created_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX provenance_by_row ON provenance(row_digest);
CREATE TABLE wanted (
  id INTEGER PRIMARY KEY,
  workload_id INTEGER NOT NULL REFERENCES workload(id),
  symbol_values TEXT NOT NULL,
  count INTEGER NOT NULL,
  last_seen_ns INTEGER NOT NULL,
  UNIQUE (workload_id, symbol_values)
) STRICT;
CREATE TABLE blocklist (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  candidate TEXT NOT NULL,
  device_hard TEXT NOT NULL,
  generator TEXT NOT NULL,
  reason TEXT NOT NULL,
  created_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX blocklist_by_candidate ON blocklist(candidate);
CREATE TABLE plan (
  id INTEGER PRIMARY KEY,
  digest TEXT NOT NULL UNIQUE,
  name TEXT NOT NULL,
  graph_digest TEXT NOT NULL,
  graph_text TEXT NOT NULL,
  plan_json TEXT NOT NULL,
  created_ns INTEGER NOT NULL
) STRICT;
CREATE INDEX plan_by_name ON plan(name);
CREATE INDEX plan_by_graph ON plan(graph_digest);
