// The tables of a log on a PostgreSQL server: how they are made, and whether they are what they should be.
//
// They are in the schema tc_log of their database, and belong to the role tc_owner. The role tc_writer may
// add and change records, tc_reader may read; people are members of them.
#pragma once

#include <string>

#include "tuner/postgres_connection.h"

namespace tc {

// What this tc makes.
int newest_postgres_schema();

// The version of the log's schema, whose tables are known to be exactly those that tc makes: columns and
// their types, constraints, triggers, owners, and nothing else. Throws a Log error where there is no log, or
// one that is damaged, newer than this tc, or not to be read by this role.
int need_postgres_schema(PostgresConnection& server);

// Makes the roles and the log where there are none, and brings an older log to the newest schema; with
// `only_upgrade` a missing log is an error. Any number of processes may do so at once.
void prepare_postgres_log(const std::string& place, bool only_upgrade);

}  // namespace tc
