# Sheets that people fill in: write_gold() and read_gold().

#' @rdname gold_sample
#' @export
write_gold <- function(
  gold,
  path,
  coders = NULL,
  blind = TRUE,
  shuffle = TRUE,
  bom = TRUE,
  overwrite = FALSE,
  delimiter = ",",
  uncoded = FALSE,
  spreadsheet = FALSE
) {
  error_call <- rlang::current_env()
  json <- check_gold(gold, error_call)
  options <- c(
    py_arguments(
      "blind",
      "shuffle",
      "bom",
      "delimiter",
      "overwrite",
      "uncoded",
      "spreadsheet"
    ),
    list(
      coders = py_values(coders)
    )
  )
  py_call("gold_write", json, py_path(path), options)
  document_event("write_gold", \() list(path = log_path(path), n = length(gold$ids)))
  invisible(path)
}

#' @rdname gold_sample
#' @export
read_gold <- function(path, gold = NULL, coders = NULL) {
  error_call <- rlang::current_env()
  check_given(path)
  json <- if (!is.null(gold)) check_gold(gold, error_call)
  coders <- py_values(coders)
  if (is.data.frame(path)) {
    if (is.null(json)) {
      abort("Codes in a data frame need {.arg gold}, the sample.", "argument", error_call)
    }
    names <- as_py_list(as_utf8(names(path)))
    columns <- lapply(as.list(path), as_codes)
    return(from_python(py_call("gold_read", columns, json, coders, names)))
  }
  names <- as_py_list(as_utf8(rlang::names2(path)))
  paths <- vapply(check_text(path), expand_path, "", USE.NAMES = FALSE)
  read <- from_python(py_call("gold_read", as_py_list(paths), json, coders, names))
  document_event("read_gold", \() {
    list(
      paths = lapply(paths, log_path),
      sha256 = lapply(paths, \(path) py_call("file_sha256", path)),
      n_coded = sum(!is.na(read$gold))
    )
  })
  read
}
