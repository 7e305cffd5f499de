#include "db/store.h"

#include <zstd.h>

#include "db/sqlite_error.h"

namespace loopwright::db {

namespace {

/// Larger than any kernel; keeps a damaged length from asking for all memory.
constexpr std::int64_t kMaxImageBytes = std::int64_t{1} << 30;

}  // namespace

Status bump_generation(Connection& connection) {
  return connection.execute("UPDATE meta SET value = CAST(CAST(value AS INTEGER) + 1 AS TEXT) WHERE key = 'generation'");
}

Status replace_best(Connection& connection, const BestRow& row) {
  return insert_row(connection, row, "ON CONFLICT(range_id, device_id, toolchain_id, policy_id) DO UPDATE SET "
                                     "digest = excluded.digest, " + insert_names<BestRow>().assignments);
}

Status store_range_symbols(Connection& connection, const Digest& range, const Guard& guard) {
  LW_TRY(Statement statement,
         connection.prepare("INSERT INTO range_symbol(range_id, name, lo, hi, multiple_of) VALUES ((SELECT id FROM range "
                            "WHERE digest = ?), ?, ?, ?, ?) ON CONFLICT DO NOTHING"));
  for (const SymbolGuard& symbol : guard.symbols) {
    LW_CHECK(statement.bind(range).bind(symbol.name).bind(symbol.lo).bind(symbol.hi).bind(symbol.multiple_of).run());
  }
  return Unit{};
}

Status replace_artifact(Connection& connection, const StoredArtifact& artifact) {
  for (const auto& [table, digest] : {std::pair{"candidate", artifact.row.candidate},
                                      std::pair{"toolchain", artifact.row.toolchain}}) {
    LW_TRY(Statement find, connection.prepare(std::string("SELECT 1 FROM ") + table + " WHERE digest = ?"));
    LW_TRY(bool there, find.bind(digest).step());
    if (there) continue;
    return Error{ErrorCode::not_found, "store an artifact", std::string("no ") + table + " `" + digest + "`",
                 connection.path(), "add that row first"};
  }
  LW_TRY(Statement statement,
         connection.prepare("INSERT INTO artifact(digest, candidate_id, toolchain_id, target, header, image, image_bytes, "
                            "origin, created_ns) VALUES (?, (SELECT id FROM candidate WHERE digest = ?), "
                            "(SELECT id FROM toolchain WHERE digest = ?), ?, ?, ?, ?, ?, ?) "
                            "ON CONFLICT(candidate_id, toolchain_id, target) DO UPDATE SET digest = excluded.digest, "
                            "header = excluded.header, image = excluded.image, image_bytes = excluded.image_bytes, "
                            "origin = excluded.origin, created_ns = excluded.created_ns"));
  const ArtifactRow& row = artifact.row;
  statement.bind(row.digest).bind(row.candidate).bind(row.toolchain).bind(row.target).bind(artifact.header);
  statement.bind_blob(artifact.compressed).bind(row.image_bytes).bind(row.origin).bind(row.created_ns);
  return statement.run();
}

Result<StoredArtifact> read_stored_artifact(Connection& connection, const Digest& digest) {
  // Of equal bytes, those built here come first.
  LW_TRY(Statement statement,
         connection.prepare("SELECT (SELECT digest FROM candidate c WHERE c.id = a.candidate_id), "
                            "(SELECT digest FROM toolchain t WHERE t.id = a.toolchain_id), target, header, image, "
                            "image_bytes, origin, created_ns FROM artifact a WHERE digest = ? ORDER BY origin, id"));
  LW_TRY(bool there, statement.bind(digest).step());
  if (!there) {
    return Error{ErrorCode::not_found, "load an artifact", "no artifact `" + digest + "`", connection.path(),
                 "build it again from its trace (`loopwright tune`, or the runtime's jit policy)"};
  }
  StoredArtifact out;
  out.row.digest = digest;
  out.row.candidate = statement.read_optional_text();
  out.row.toolchain = statement.read_optional_text();
  out.row.target = statement.read_text();
  out.header = statement.read_text();
  out.compressed = statement.read_blob();
  out.row.image_bytes = statement.read_int();
  out.row.origin = statement.read_text();
  out.row.created_ns = statement.read_int();
  out.row.stored_bytes = static_cast<std::int64_t>(out.compressed.size());
  if (!statement.is_damaged()) return out;
  return make_file_error(ErrorCode::db_corrupt, "load an artifact", "artifact `" + digest + "` is damaged",
                         connection.path(), {});
}

Result<std::vector<std::uint8_t>> unpack_image(const StoredArtifact& artifact, const std::string& path) {
  auto fail = [&](const std::string& found) {
    return make_file_error(ErrorCode::db_corrupt, "load artifact `" + artifact.row.digest + "`", found, path,
                           "build it again from its trace; `loopwright db doctor` lists what is damaged");
  };
  std::int64_t bytes = artifact.row.image_bytes;
  if (bytes < 0 || bytes > kMaxImageBytes) return fail("image of " + std::to_string(bytes) + " bytes");
  // The frame says its own size too; both must agree before that much memory is asked for.
  auto framed = ZSTD_getFrameContentSize(artifact.compressed.data(), artifact.compressed.size());
  if (framed != static_cast<unsigned long long>(bytes)) return fail("compressed image of another size");
  std::vector<std::uint8_t> image(static_cast<std::size_t>(bytes));
  std::size_t size = ZSTD_decompress(image.data(), image.size(), artifact.compressed.data(), artifact.compressed.size());
  if (ZSTD_isError(size)) return fail(ZSTD_getErrorName(size));
  if (size != image.size()) return fail("compressed image of another size");
  if (compute_artifact_digest(artifact.header, image) != artifact.row.digest) return fail("bytes do not fit the digest");
  return image;
}

}  // namespace loopwright::db
