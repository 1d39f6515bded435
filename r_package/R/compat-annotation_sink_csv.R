#' Write annotations to a CSV file
#'
#' Creates a sink for [explore()]. The sink adds rows to the file as soon as they are finished, so
#' that a crash loses no finished row. The file is UTF-8; quotation marks within texts are doubled,
#' a form that [utils::read.csv()] and spreadsheet programs can read.
#'
#' @param path Path of the file; `~` is expanded.
#' @param append TRUE adds rows to an existing file,
#'   without a second header; FALSE overwrites the file.
#' @returns A function with the arguments `chunk`, a data frame, and `model_id`. The
#'   function returns `model_id` invisibly.
#' @seealso [explore()]
#' @export
#' @examples
#' path <- tempfile(fileext = ".csv")
#' sink <- annotation_sink_csv(path)
#' sink(data.frame(sample_id = 1, label = 'say "hi"'), "model_a")
#' read.csv(path)
annotation_sink_csv <- function(path, append = FALSE) {
  error_call <- rlang::current_env()
  path <- expand_path(check_string(path))
  append <- check_flag(append)
  check_folder(path, error_call)
  path <- full_path(path) # the working directory may change before the next chunk
  has_header <- append && file.exists(path) && file.size(path) > 0
  is_begun <- append
  function(chunk, model_id) {
    if (!is.data.frame(chunk)) {
      abort_argument("chunk", "a data frame", chunk, rlang::current_env())
    }
    rows <- do.call(paste, c(unname(lapply(chunk, csv_cells)), sep = ","))
    header <- if (!has_header) paste(csv_cells(names(chunk)), collapse = ",")
    write <- if (is_begun) append_lines else replace_lines
    if (!write(path, c(header, if (nrow(chunk) > 0) rows))) {
      rest <- sprintf("The rows of this chunk are not in the file, those before are.")
      abort_unwritten(path, rest, rlang::current_env())
    }
    is_begun <<- TRUE
    has_header <<- TRUE
    invisible(model_id)
  }
}

csv_cells <- function(x) {
  if (is.factor(x)) {
    x <- as.character(x)
  }
  cells <- if (is.numeric(x) || is.logical(x)) {
    vapply(x, format, "", digits = 15L, decimal.mark = ".", USE.NAMES = FALSE)
  } else {
    paste0("\"", gsub("\"", "\"\"", enc2utf8(as.character(x)), fixed = TRUE), "\"")
  }
  ifelse(is.na(x), "NA", cells)
}
