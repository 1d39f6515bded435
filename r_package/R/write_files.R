# Writes files whole or not at all. R reports a full disk neither when it writes to a connection nor
# when it closes the connection, so the size of the file is compared with the number of bytes.

# Adds lines to a file. If not all of them can be written, the file keeps its former size, and
# FALSE is returned.
append_lines <- function(path, lines) {
  bytes <- bytes_of_lines(lines)
  before <- size_of(path)
  wrote <- write_bytes(path, bytes, "ab") && size_of(path) == before + length(bytes)
  if (!wrote) {
    cut_file(path, before)
  }
  wrote
}

# Writes lines to a new file beside `path` and renames the new file, so that an existing file stays
# as it is if the lines cannot be written. Returns FALSE in that case.
replace_lines <- function(path, lines) {
  bytes <- bytes_of_lines(lines)
  path <- full_path(path) # a link stays a link
  if (startsWith(path, "/dev/")) {
    return(write_bytes(path, bytes, "wb"))
  }
  draft <- tempfile(".llamaherd-", native_path(dir_name(path)))
  on.exit(unlink(draft))
  if (file_exists(path)) {
    file.create(draft, showWarnings = FALSE)
    Sys.chmod(draft, file.mode(native_path(path)), use_umask = FALSE)
  }
  write_bytes(draft, bytes, "wb") &&
    size_of(draft) == length(bytes) &&
    suppressWarnings(file.rename(draft, native_path(path)))
}

# Copies a file; an existing file `to` stays as it is if the copy is not complete.
copy_whole <- function(from, to) {
  draft <- tempfile(".llamaherd-", native_path(dir_name(to)))
  on.exit(unlink(draft))
  suppressWarnings(
    file.copy(native_path(from), draft) &&
      size_of(draft) == size_of(from) &&
      file.rename(draft, native_path(to))
  )
}

# Reports that a file could not be written, and what became of it.
abort_unwritten <- function(path, rest, error_call) {
  abort(
    c(
      "{.path {path}} cannot be written.",
      x = rest,
      i = "Is the disk full, or the folder read-only? Free space and try again."
    ),
    "argument",
    error_call
  )
}

bytes_of_lines <- function(lines) {
  lines <- enc2utf8(as.character(unlist(lines)))
  charToRaw(paste0(lines, "\n", collapse = ""))
}

size_of <- function(path) {
  size <- file.size(native_path(path))
  if (is.na(size)) 0 else size
}

# Returns FALSE if the file cannot be opened, or if R reports that writing failed.
write_bytes <- function(path, bytes, mode) {
  tryCatch(
    {
      con <- file(native_path(path), mode)
      on.exit(close(con))
      writeBin(bytes, con)
      TRUE
    },
    error = \(cnd) FALSE,
    warning = \(cnd) FALSE
  )
}

cut_file <- function(path, size) {
  if (size_of(path) > size) {
    con <- file(native_path(path), "r+b")
    on.exit(close(con))
    seek(con, size, rw = "write")
    truncate(con)
  }
}
