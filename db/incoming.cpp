// Reading what is to be merged: another database, or JSON lines.
#include <algorithm>
#include <array>
#include <istream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "db/merge.h"
#include "db/storage.h"

namespace loopwright::db {

namespace {

using nlohmann::json;

template <std::size_t kIndex = 0>
Status read_tables(Connection& connection, std::vector<AnyRow>& rows) {
  if constexpr (kIndex < std::variant_size_v<AnyRow>) {
    using Row = std::variant_alternative_t<kIndex, AnyRow>;
    LW_TRY(auto found, select_rows<Row>(connection, "ORDER BY t.id"));
    for (Row& row : found) rows.emplace_back(std::move(row));
    return read_tables<kIndex + 1>(connection, rows);
  }
  return Unit{};
}

Error make_line_error(std::int64_t number, std::string found) {
  return Error{ErrorCode::syntax, "import an export", std::move(found), "line " + std::to_string(number),
               "lines as `loopwright db export` of this or an older version writes them"};
}

Status check_head(const json& head, std::int64_t number) {
  auto read_int = [&](const char* field) {
    auto found = head.find(field);
    return found != head.end() && found->is_number_integer() ? found->get<std::int64_t>() : std::int64_t{-1};
  };
  std::int64_t format = read_int("format");
  std::int64_t schema = read_int("schema");
  if (format < 1 || schema < 1) return make_line_error(number, "a head without format and schema");
  if (format > kExportFormat || schema > current_schema_version()) {
    return Error{ErrorCode::db_newer, "import an export",
                 "format " + std::to_string(format) + ", schema " + std::to_string(schema) +
                     "; this program knows up to " + std::to_string(kExportFormat) + " and " +
                     std::to_string(current_schema_version()),
                 "line " + std::to_string(number), "update Loopwright"};
  }
  return Unit{};
}

}  // namespace

Result<std::vector<StoredArtifact>> read_stored_artifacts(Connection& connection) {
  LW_TRY(Statement statement,
         connection.prepare("SELECT a.digest, c.digest, t.digest, a.target, a.header, a.image, a.image_bytes, a.origin, "
                            "a.created_ns FROM artifact a JOIN candidate c ON c.id = a.candidate_id JOIN toolchain t ON "
                            "t.id = a.toolchain_id ORDER BY a.id"));
  std::vector<StoredArtifact> out;
  while (true) {
    LW_TRY(bool there, statement.step());
    if (!there) return out;
    StoredArtifact artifact;
    artifact.row.digest = statement.read_text();
    artifact.row.candidate = statement.read_text();
    artifact.row.toolchain = statement.read_text();
    artifact.row.target = statement.read_text();
    artifact.header = statement.read_text();
    artifact.compressed = statement.read_blob();
    artifact.row.image_bytes = statement.read_int();
    artifact.row.origin = statement.read_text();
    artifact.row.created_ns = statement.read_int();
    if (statement.is_damaged() || !unpack_image(artifact, connection.path()).ok()) {
      ++connection.damaged_rows;
      continue;
    }
    out.push_back(std::move(artifact));
  }
}

std::string write_artifact_line(const StoredArtifact& artifact) {
  json object = {{"table", "artifact"},
                 {"digest", artifact.row.digest},
                 {"candidate", artifact.row.candidate},
                 {"toolchain", artifact.row.toolchain},
                 {"target", artifact.row.target},
                 {"header", artifact.header},
                 {"image_bytes", artifact.row.image_bytes},
                 {"image_zstd_base64", encode_base64(artifact.compressed)},
                 {"created_ns", artifact.row.created_ns}};
  return object.dump(-1, ' ', false, json::error_handler_t::replace);
}

Result<StoredArtifact> parse_artifact_line(std::string_view line) {
  auto fail = [](std::string found) { return make_line_error(0, std::move(found)); };
  json object = json::parse(line, nullptr, false);
  if (!object.is_object()) return fail("not a JSON object");
  StoredArtifact artifact;
  std::string image;
  for (auto& [field, text] : {std::pair{"digest", &artifact.row.digest}, {"candidate", &artifact.row.candidate},
                              {"toolchain", &artifact.row.toolchain}, {"target", &artifact.row.target},
                              {"header", &artifact.header}, {"image_zstd_base64", &image}}) {
    auto found = object.find(field);
    if (found == object.end() || !found->is_string()) return fail(std::string("artifact without text `") + field + "`");
    *text = found->get<std::string>();
  }
  for (auto& [field, number] : {std::pair{"image_bytes", &artifact.row.image_bytes},
                                {"created_ns", &artifact.row.created_ns}}) {
    auto found = object.find(field);
    if (found == object.end() || !found->is_number_integer()) {
      return fail(std::string("artifact without number `") + field + "`");
    }
    *number = found->get<std::int64_t>();
  }
  LW_TRY(artifact.compressed, decode_base64(image));
  LW_TRY([[maybe_unused]] auto bytes, unpack_image(artifact, "import"));
  return artifact;
}

Result<Incoming> read_incoming(Connection& connection, bool with_artifacts) {
  Incoming incoming;
  LW_CHECK(connection.execute("BEGIN"));
  LW_TRY(incoming.uuid, connection.query_text("SELECT value FROM meta WHERE key = 'uuid'"));
  LW_CHECK(read_tables(connection, incoming.rows));
  if (with_artifacts) {
    LW_TRY(incoming.artifacts, read_stored_artifacts(connection));
  }
  LW_CHECK(connection.execute("COMMIT"));
  return incoming;
}

Result<Incoming> read_incoming(std::istream& in, bool with_artifacts) {
  Incoming incoming;
  incoming.uuid = "import";
  std::array<std::vector<AnyRow>, std::variant_size_v<AnyRow>> by_table;
  std::string line;
  bool has_head = false;
  for (std::int64_t number = 1;; ++number) {
    // Looked at first, because a line of something else (a device, an image) may have no end.
    if (const int first = in.peek(); first != std::istream::traits_type::eof() && first != '{' && first != '#' && first != '\n')
      return make_line_error(number, "not a JSON object with a field `table`");
    if (!std::getline(in, line)) break;
    if (line.starts_with("# uuid ")) incoming.uuid = line.substr(7);
    if (line.empty() || line.front() == '#') continue;
    std::string table = read_line_table(line);
    if (table.empty()) return make_line_error(number, "not a JSON object with a field `table`");
    if (table == "meta") {
      LW_CHECK(check_head(json::parse(line, nullptr, false), number));
      has_head = true;
      continue;
    }
    if (!has_head) return make_line_error(number, "rows before the head (`{\"table\":\"meta\",...}`)");
    if (table == "artifact") {
      if (!with_artifacts) continue;
      auto artifact = parse_artifact_line(line);
      if (!artifact.ok()) return Error(artifact.error()).with_context("line " + std::to_string(number));
      incoming.artifacts.push_back(*std::move(artifact));
      continue;
    }
    auto row = parse_line(line);
    if (!row.ok()) return Error(row.error()).with_context("line " + std::to_string(number));
    by_table[row->index()].push_back(*std::move(row));
  }
  if (!has_head) return make_line_error(1, "no head: this is no export, or an empty one");
  for (std::vector<AnyRow>& rows : by_table) std::move(rows.begin(), rows.end(), std::back_inserter(incoming.rows));
  return incoming;
}

}  // namespace loopwright::db
