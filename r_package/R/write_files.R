# Writes files whole or not at all. R reports a full disk neither when it writes to a connection nor
# when it closes the connection, so the size of the file is compared with the number of bytes.

# Adds lines to a file. If not all of them can be written, the file keeps its former size, and
# FALSE is returned. A file that has more bytes than expected also has lines of other processes, and
# is not cut.
append_lines <- function(path, lines) {
  bytes <- bytes_of_lines(lines)
  if (is_stream(path)) {
    return(write_bytes(path, bytes, "ab", raw = TRUE))
  }
  before <- size_of(path)
  wrote <- write_bytes(path, bytes, "ab")
  is_whole <- size_of(path) >= before + length(bytes)
  if (!is_whole) {
    cut_file(path, before)
  }
  wrote && is_whole
}

# Writes lines to a new file beside `path` and renames the new file, so that an existing file stays
# as it is if the lines cannot be written. Returns FALSE in that case.
replace_lines <- function(path, lines) {
  bytes <- bytes_of_lines(lines)
  if (is_stream(path)) {
    return(write_bytes(path, bytes, "ab", raw = TRUE))
  }
  path <- full_path(path) # a link stays a link
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

# Copies a file, into `to` if this is a folder. An existing file `to` stays as it is if the copy is
# not complete.
copy_whole <- function(from, to) {
  if (dir_exists(to)) {
    to <- file.path(to, base_name(from))
  }
  if (is_stream(to)) {
    return(suppressWarnings(file.append(native_path(to), native_path(from))))
  }
  to <- full_path(to) # a link stays a link
  if (file_exists(from) && to == full_path(from)) {
    return(TRUE)
  }
  draft <- tempfile(".llamaherd-", native_path(dir_name(to)))
  on.exit(unlink(draft))
  suppressWarnings(
    file.copy(native_path(from), draft) &&
      size_of(draft) == size_of(from) &&
      file.rename(draft, native_path(to))
  )
}

# Reports that a file could not be written, and what became of it.
abort_unwritten <- function(path, rest) {
  abort(c(
    "{.path {path}} cannot be written.",
    x = rest,
    i = "Is the disk full, or the folder read-only? Free space and try again."
  ))
}

bytes_of_lines <- function(lines) {
  lines <- enc2utf8(as.character(unlist(lines)))
  if (length(lines) == 0) {
    return(raw())
  }
  charToRaw(paste0(lines, "\n", collapse = ""))
}

size_of <- function(path) {
  size <- file.size(native_path(path))
  if (is.na(size)) 0 else size
}

# TRUE for output of this process and for what is no regular file, such as a named pipe: nothing may
# replace or cut it, and its size says nothing. R has no such test; it is made only for a size of 0,
# which pipes and devices have. In the C locale R 4.5 passes only ASCII to a shell, so the shell
# gets the bytes of the path as numbers.
is_stream <- function(path) {
  if (.Platform$OS.type != "unix" || !file_exists(path)) {
    return(FALSE)
  }
  path <- native_path(path)
  grepl("^/(dev/std|dev/fd/|proc/)", path) ||
    size_of(path) == 0 && !is_regular(path)
}

is_regular <- function(path) {
  bytes <- paste0(
    "\\",
    format(as.octmode(as.integer(charToRaw(path))), width = 3),
    collapse = ""
  )
  system2("sh", c("-c", shQuote(sprintf("test -f \"$(printf '%s')\"", bytes)))) == 0
}

# Returns FALSE if the file cannot be opened, or if R reports that writing failed.
write_bytes <- function(path, bytes, mode, raw = FALSE) {
  tryCatch(
    {
      con <- file(native_path(path), mode, raw = raw) # R warns of pipes without `raw`
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
