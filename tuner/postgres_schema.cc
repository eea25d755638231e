#include "tuner/postgres_schema.h"

#include <algorithm>
#include <iterator>
#include <sstream>
#include <vector>

#include "ir/error.h"
#include "tuner/record_store.h"

namespace tc {
namespace {

constexpr const char* kMigrationLock = "7166746201";  // of advisory locks in the log's database
constexpr size_t kMaxParts = 300;                     // of a schema that are looked at

// The bounds in the constraints below.
static_assert(kMaxWorkloadBytes == 1048576 && kMaxTraceBytes == 65536 && kMaxNameBytes == 4096 &&
              kMaxDetailBytes == 4096 && kMaxThreads == 4096);

// One step per schema version: element i brings a log from version i to i + 1. Statements are separated by
// lines of two dashes.
//
// Keys are digests, since an entry of an index may have 2,704 bytes at most. A constraint computes each of
// them again, so that no row can have the digest of another one. A record does not refer to its workload by
// a foreign key, for then all writers of a workload's records would write a lock into its one row.
const char* const kMigrations[] = {
    R"sql(
CREATE TABLE tc_log.meta (
  application text NOT NULL,
  schema integer NOT NULL
)
--
CREATE TABLE tc_log.workload (
  digest bytea CONSTRAINT workload_key PRIMARY KEY,
  key text NOT NULL,
  CONSTRAINT workload_digest CHECK (digest = sha256(convert_to(key, 'UTF8'))),
  CONSTRAINT key_size CHECK (octet_length(key) BETWEEN 1 AND 1048576)
)
--
CREATE TABLE tc_log.record (
  number bigint GENERATED ALWAYS AS IDENTITY,
  digest bytea CONSTRAINT record_key PRIMARY KEY,
  workload bytea NOT NULL,
  target text NOT NULL CONSTRAINT target_size CHECK (octet_length(target) BETWEEN 1 AND 4096),
  device text NOT NULL CONSTRAINT device_size CHECK (octet_length(device) BETWEEN 1 AND 4096),
  unit text NOT NULL CONSTRAINT unit_size CHECK (octet_length(unit) BETWEEN 1 AND 4096),
  threads integer NOT NULL CONSTRAINT record_threads CHECK (threads BETWEEN 1 AND 4096),
  trace text NOT NULL CONSTRAINT trace_size CHECK (octet_length(trace) <= 65536),
  outcome integer NOT NULL CONSTRAINT record_outcome CHECK (outcome BETWEEN 0 AND 8),
  detail text NOT NULL CONSTRAINT detail_size CHECK (octet_length(detail) <= 4096),
  samples integer NOT NULL,
  minimum double precision NOT NULL,
  median double precision NOT NULL,
  spread double precision NOT NULL,
  ratio double precision NOT NULL,
  worst_error double precision NOT NULL,
  build text NOT NULL CONSTRAINT build_size CHECK (octet_length(build) BETWEEN 1 AND 4096),
  language_major integer NOT NULL,
  language_minor integer NOT NULL,
  seed bigint NOT NULL,
  created bigint NOT NULL,
  chosen boolean NOT NULL DEFAULT false,
  author text NOT NULL,
  CONSTRAINT record_digest CHECK (digest = sha256(convert_to(encode(workload, 'hex') || E'\n' || target ||
    E'\n' || device || E'\n' || threads || E'\n' || build || E'\n' || trace, 'UTF8'))),
  CONSTRAINT record_time CHECK (outcome <> 0 OR (samples >= 1 AND median > 0))
)
--
CREATE INDEX record_by_workload ON tc_log.record (workload)
--
CREATE INDEX record_by_target ON tc_log.record (left(target, 100), threads)
--
CREATE TABLE tc_log.session (
  digest bytea CONSTRAINT session_key PRIMARY KEY,
  name text NOT NULL CONSTRAINT name_size CHECK (octet_length(name) BETWEEN 1 AND 16384),
  seconds double precision NOT NULL CONSTRAINT session_seconds CHECK (seconds >= 0),
  CONSTRAINT session_digest CHECK (digest = sha256(convert_to(name, 'UTF8')))
)
--
CREATE FUNCTION tc_log.set_author() RETURNS trigger LANGUAGE plpgsql
SET search_path = pg_catalog, pg_temp AS $$
BEGIN
  IF TG_OP = 'UPDATE' THEN
    OLD.chosen := NEW.chosen;
    IF NEW IS NOT DISTINCT FROM OLD THEN RETURN NEW; END IF;
  END IF;
  NEW.author := session_user;
  RETURN NEW;
END $$
--
CREATE TRIGGER record_author BEFORE INSERT OR UPDATE ON tc_log.record
FOR EACH ROW EXECUTE FUNCTION tc_log.set_author()
--
INSERT INTO tc_log.meta VALUES ('tc log', 0)
--
GRANT USAGE ON SCHEMA tc_log TO tc_reader, tc_writer
--
GRANT SELECT ON tc_log.meta, tc_log.workload, tc_log.record, tc_log.session TO tc_reader, tc_writer
--
GRANT INSERT ON tc_log.workload TO tc_writer
--
GRANT INSERT, UPDATE ON tc_log.record, tc_log.session TO tc_writer
)sql",
    "CREATE UNIQUE INDEX record_by_number ON tc_log.record (number)",
};
constexpr int kSchema = static_cast<int>(std::size(kMigrations));

// The parts of the first schema as kParts lists them, and what each later version has in addition.
constexpr const char* kExpected[] = {R"(
column meta.application|text not null
column meta.schema|integer not null
column record.author|text not null
column record.build|text not null
column record.chosen|boolean not null default
column record.created|bigint not null
column record.detail|text not null
column record.device|text not null
column record.digest|bytea not null
column record.language_major|integer not null
column record.language_minor|integer not null
column record.median|double precision not null
column record.minimum|double precision not null
column record.number|bigint not null identity
column record.outcome|integer not null
column record.ratio|double precision not null
column record.samples|integer not null
column record.seed|bigint not null
column record.spread|double precision not null
column record.target|text not null
column record.threads|integer not null
column record.trace|text not null
column record.unit|text not null
column record.workload|bytea not null
column record.worst_error|double precision not null
column session.digest|bytea not null
column session.name|text not null
column session.seconds|double precision not null
column workload.digest|bytea not null
column workload.key|text not null
constraint record.build_size|c
constraint record.detail_size|c
constraint record.device_size|c
constraint record.record_digest|c
constraint record.record_key|p
constraint record.record_outcome|c
constraint record.record_threads|c
constraint record.record_time|c
constraint record.target_size|c
constraint record.trace_size|c
constraint record.unit_size|c
constraint session.name_size|c
constraint session.session_digest|c
constraint session.session_key|p
constraint session.session_seconds|c
constraint workload.key_size|c
constraint workload.workload_digest|c
constraint workload.workload_key|p
function set_author|tc_owner
index record_by_target|tc_owner
index record_by_workload|tc_owner
index record_key|tc_owner
index session_key|tc_owner
index workload_key|tc_owner
sequence record_number_seq|tc_owner
table meta|tc_owner
table record|tc_owner
table session|tc_owner
table workload|tc_owner
trigger record.record_author|set_author
)",
                                     "index record_by_number|tc_owner"};
static_assert(std::size(kExpected) == std::size(kMigrations));

// Kind and name of each part of the schema, and what else there is to say of it; reads PostgreSQL's own
// tables only. Constraints that are NOT NULL are told with their columns.
constexpr const char* kParts = R"sql(
WITH
schema AS (SELECT oid FROM pg_namespace WHERE nspname = 'tc_log'),
ours AS (SELECT * FROM pg_class WHERE relnamespace = (SELECT oid FROM schema)),
parts (name, rest) AS (
  SELECT
    CASE relkind WHEN 'r' THEN 'table' WHEN 'v' THEN 'view' WHEN 'm' THEN 'materialized view'
      WHEN 'i' THEN 'index' WHEN 'S' THEN 'sequence' WHEN 'f' THEN 'foreign table'
      WHEN 'p' THEN 'partitioned table' ELSE 'relation' END || ' ' || relname,
    pg_get_userbyid(relowner) ||
      CASE WHEN relrowsecurity OR relforcerowsecurity THEN ' row security' ELSE '' END ||
      CASE WHEN EXISTS (SELECT 1 FROM pg_inherits WHERE inhparent = ours.oid OR inhrelid = ours.oid)
        THEN ' inherits' ELSE '' END
  FROM ours
  UNION ALL
  SELECT 'column ' || relname || '.' || attname,
    format_type(atttypid, atttypmod) || CASE WHEN attnotnull THEN ' not null' ELSE '' END ||
      CASE WHEN attgenerated <> '' THEN ' generated' WHEN attidentity <> '' THEN ' identity'
        WHEN atthasdef THEN ' default' ELSE '' END
  FROM ours JOIN pg_attribute ON attrelid = ours.oid
  WHERE relkind NOT IN ('i', 'S') AND attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT 'constraint ' || relname || '.' || conname, contype::text
  FROM ours JOIN pg_constraint ON conrelid = ours.oid WHERE contype <> 'n'
  UNION ALL
  SELECT 'trigger ' || relname || '.' || tgname,
    proname || CASE WHEN tgenabled = 'O' THEN '' ELSE ' not enabled' END
  FROM ours JOIN pg_trigger ON tgrelid = ours.oid JOIN pg_proc ON pg_proc.oid = tgfoid
  WHERE NOT tgisinternal
  UNION ALL
  SELECT 'rule ' || relname || '.' || rulename, '' FROM ours JOIN pg_rewrite ON ev_class = ours.oid
  UNION ALL
  SELECT 'policy ' || relname || '.' || polname, '' FROM ours JOIN pg_policy ON polrelid = ours.oid
  UNION ALL
  SELECT 'function ' || proname, pg_get_userbyid(proowner)
  FROM pg_proc WHERE pronamespace = (SELECT oid FROM schema)
)
SELECT name, rest FROM parts ORDER BY position('.' IN name) > 0, name COLLATE "C" LIMIT $1::integer
)sql";

std::vector<std::string> lines_of(const char* lines) {
  std::vector<std::string> found;
  std::istringstream in(lines);
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) found.push_back(line);
  }
  return found;
}

bool has_schema(PostgresConnection& server) {
  return server.value("SELECT 1 FROM pg_namespace WHERE nspname = 'tc_log'").has_value();
}

// The version that the log says to have.
int64_t version_of(PostgresConnection& server) {
  if (server.value("SELECT has_schema_privilege('tc_log', 'USAGE')") != "t")
    fail(ErrorKind::Log, server.name(), ": the role ", server.role(),
         " may not read this log; its owner allows it by GRANT tc_reader TO ", server.role());
  const auto kind = server.value(
      "SELECT relkind FROM pg_class WHERE relname = 'meta' AND relnamespace = (SELECT oid FROM pg_namespace "
      "WHERE nspname = 'tc_log')");
  if (kind != "r") server.fail_damaged("the table 'meta' is missing");
  std::vector<int64_t> versions;
  server.run("SELECT schema FROM tc_log.meta WHERE application = 'tc log' LIMIT 2", {},
             [&](const PostgresRow& row) { versions.push_back(row.integer(0)); });
  if (versions.size() != 1 || versions[0] < 1) server.fail_damaged("it has no schema version");
  return versions[0];
}

void need_parts(PostgresConnection& server, int64_t version) {
  std::vector<std::string> due;
  for (int64_t i = 0; i < version; ++i)
    for (std::string& line : lines_of(kExpected[i])) due.push_back(std::move(line));
  server.run(kParts, {std::to_string(kMaxParts)}, [&](const PostgresRow& row) {
    const std::string name = row.text(0), line = name + "|" + row.text(1);
    const auto found = std::find_if(due.begin(), due.end(), [&](const std::string& other) {
      return other.substr(0, other.find('|')) == name;
    });
    if (found == due.end()) server.fail_damaged(text("the part '", name, "' is none of those that tc makes"));
    if (*found != line) server.fail_damaged(text("the part '", name, "' is not defined as tc defines it"));
    due.erase(found);
  });
  if (!due.empty()) server.fail_damaged("the " + due[0].substr(0, due[0].find('|')) + " is missing");
}

// Throws where the role cannot make a log: better than the server's refusal of one of the statements.
void need_right_to_make(PostgresConnection& server) {
  const auto may = server.value(
      "SELECT has_database_privilege(current_database(), 'CREATE') AND (SELECT rolsuper OR rolcreaterole FROM "
      "pg_roles WHERE rolname = session_user)");
  if (may != "t")
    fail(ErrorKind::Log, server.name(), ": the role ", server.role(),
         " may not make a log; that needs the right to create schemas in this database and to create roles "
         "(GRANT CREATE ON DATABASE, ALTER ROLE ... CREATEROLE)");
}

// Roles are the whole server's, and may have been made for another log.
void make_roles(PostgresConnection& server) {
  for (const char* role : {"tc_owner", "tc_writer", "tc_reader"}) {
    if (!server.value("SELECT 1 FROM pg_roles WHERE rolname = $1", {role}))
      server.run(text("CREATE ROLE ", role, " NOLOGIN"));
  }
  if (server.value("SELECT pg_has_role(session_user, 'tc_owner', 'USAGE')") != "t")
    server.run("GRANT tc_owner TO SESSION_USER");
}

// Nobody else needs a database that has nothing but the log.
void close_database(PostgresConnection& server) {
  const auto others = server.value(
      "SELECT count(*) FROM pg_class WHERE relnamespace NOT IN (SELECT oid FROM pg_namespace WHERE nspname IN "
      "('pg_catalog', 'information_schema', 'pg_toast'))");
  if (others != "0") return;
  const auto database = server.value("SELECT quote_ident(current_database())");
  server.run("REVOKE ALL ON DATABASE " + *database + " FROM PUBLIC");
  server.run("GRANT CONNECT ON DATABASE " + *database + " TO tc_owner, tc_writer, tc_reader");
  server.run("REVOKE CREATE ON SCHEMA public FROM PUBLIC");
}

void migrate(PostgresConnection& server, bool only_upgrade) {
  server.run(text("SELECT pg_advisory_xact_lock(", kMigrationLock, ")"));
  const bool is_new = !has_schema(server);
  if (is_new) {
    if (only_upgrade)
      fail(ErrorKind::Log, server.name(), ": has no log to upgrade; `python -m tc log init URL` makes one");
    need_right_to_make(server);
    make_roles(server);
    close_database(server);
    server.run("CREATE SCHEMA tc_log AUTHORIZATION tc_owner");
  } else if (need_postgres_schema(server) == kSchema) {
    return;
  }
  server.run("SET LOCAL ROLE tc_owner");
  for (int64_t version = is_new ? 0 : version_of(server); version < kSchema; ++version) {
    std::string steps = kMigrations[version];
    for (size_t end; !steps.empty(); steps.erase(0, std::min(steps.size(), end + 4))) {
      end = std::min(steps.find("\n--\n"), steps.size());
      server.run(steps.substr(0, end));
    }
  }
  server.run("UPDATE tc_log.meta SET schema = $1::integer", {std::to_string(kSchema)});
  need_postgres_schema(server);
}

}  // namespace

int newest_postgres_schema() { return kSchema; }

int need_postgres_schema(PostgresConnection& server) {
  if (!has_schema(server))
    fail(ErrorKind::Log, server.name(),
         ": no such log; `python -m tc log init URL` makes one in this database");
  const int64_t version = version_of(server);
  if (version > kSchema)
    fail(ErrorKind::Log, server.name(), ": the log has schema ", version, " and this tc knows up to ",
         kSchema, "; update tc, or give another log");
  need_parts(server, version);
  return static_cast<int>(version);
}

void prepare_postgres_log(const std::string& place, bool only_upgrade) {
  PostgresConnection server(place, false);
  server.transaction([&] { migrate(server, only_upgrade); });
}

}  // namespace tc
