#' Read and compare passages that people marked
#'
#' @description
#' `read_spans()` reads passages with labels from a file: JSON lines, exports of doccano and Label
#' Studio, or a folder of brat. `validate_spans()` compares a model's passages with the passages of
#' people, for the texts that are in both data frames.
#'
#' @section Files:
#' * `"jsonl"`: a line per text and coder, with `text`, `spans` (each with `start`, `end`, `label`)
#'   and optionally `id` and `coder`. `llamaherd annotate` writes such lines with a codebook of
#'   `type = "spans"`. In JSON lines, `start` counts from 0, and `end` is the position after the
#'   passage.
#' * `"doccano"`: JSON lines exported by doccano, with the field `label` or `entities`.
#' * `"labelstudio"`: JSON or JSON-MIN exported by Label Studio. Cancelled annotations are left out.
#' * `"brat"`: a folder with `.ann` files and the texts. Each part of a discontinuous
#'   passage becomes a separate passage.
#'
#' If the file does not name its coder, the coder gets the name of the file, or for brat the name of
#' the folder.
#'
#' @section Measures:
#' `exact` is the agreement on passages with the same position and label, `overlap` the agreement on
#' passages that share at least one character with a passage of the same label. `unitizing alpha` is
#' Krippendorff's alpha for unitizing (2004): 1 is perfect agreement, 0 is agreement by chance.
#' Alpha is computed over all texts together, and passages of a coder that overlap and have the same
#' label are merged. Intervals follow from the influences of texts.
#'
#' @param path Paths of files or folders.
#' @param ... Must be empty: all further arguments must be named.
#' @param format Format of the files; `"auto"` recognizes the format.
#' @param text Name of the field with the text in JSON lines.
#' @returns `read_spans()`: a `llamaherd_spans`, a data frame with one row per passage and these
#'   columns: `coder`, `id`, `label` (a factor), `quote`, and `start` and `end` (positions of the
#'   first and last character of the passage in the text, as [substr()] counts them). Texts without
#'   passages are kept in an attribute.
#'
#'   `validate_spans()`: a `llamaherd_span_validation`, a data frame with the columns `part` (the
#'   model or the coders that are compared), `measure`, `label` (NA for all labels together),
#'   `value`, `low`, `high` and `n` (number of texts). A measure that is undefined is NA.
#' @references
#' Krippendorff (2004), Measuring the reliability of qualitative text analysis data, Quality &
#' Quantity 38, 787-800.
#' @seealso [codebook()] for `type = "spans"`, [coded_spans()], [plots], [validate()] for labels of
#'   texts
#' @concept doccano
#' @concept Label Studio
#' @concept brat
#' @export
#' @examplesIf llamaherd_available()
#' path <- tempfile(fileext = ".jsonl")
#' writeLines(
#'   c(
#'     '{"text": "Ann met Bob.", "spans": [{"start": 0, "end": 3, "label": "who"}]}',
#'     '{"text": "It rained.", "spans": []}'
#'   ),
#'   path
#' )
#' marked <- read_spans(path)
#' marked
#'
#' coded <- data.frame(text = c("Ann met Bob.", "It rained."))
#' coded$spans <- list(
#'   data.frame(label = "who", quote = "Ann met", start = 1, end = 7),
#'   data.frame(label = "who", quote = "It", start = 1, end = 2)
#' )
#' validate_spans(coded, marked, text = "text")
read_spans <- function(
  path,
  ...,
  format = c("auto", "jsonl", "doccano", "labelstudio", "brat"),
  text = "text"
) {
  check_dots(rlang::enquos(...))
  paths <- vapply(check_text(path), expand_path, "", USE.NAMES = FALSE)
  if (length(paths) == 0 || !all(file_exists(paths))) {
    abort_argument("path", "existing files", path)
  }
  format <- py_value(format)
  py_call("read_spans", as_py_list(paths), format = format, text = py_value(text))
}

#' @rdname read_spans
#' @param coded A data frame from [annotate_texts()] with a codebook of `type = "spans"`, or another
#'   data frame with a column of texts and a list column `spans` of the same form.
#' @param gold Passages from `read_spans()`. Texts are matched by their content.
#' @param level Confidence level.
#' @export
validate_spans <- function(
  coded,
  gold,
  ...,
  text = NULL,
  level = 0.95
) {
  check_given(gold)
  gamma <- c(gamma = "The measure `unitizing alpha` is always computed.")
  check_removed(rlang::enquos(...), c(gamma, removed_bootstrap))
  coded <- check_data(coded, "coded")
  if (!inherits(gold, "llamaherd_spans") || is.null(attr(gold, "content"))) {
    abort_argument("gold", "what read_spans() returns", gold)
  }
  known <- attr(coded, "llamaherd")
  text <- check_string(text, null = TRUE) %||% known$text
  spans <- coded[[known$columns[["spans"]] %||% "spans"]]
  if (is.list(spans) && is.null(coded[[text %||% ""]])) {
    hint <- "If texts were changed, the data no longer record the name of their column."
    abort_column("text", text, coded, hint)
  }
  if (is.null(text) || is.null(coded[[text]]) || !is.list(spans)) {
    hint <- "`text` names the column of texts; a list column `spans` has the passages."
    must <- "a data frame from annotate_texts() with a codebook of passages"
    abort_argument("coded", must, coded, hint = hint)
  }
  arguments <- list(
    texts = text_list(as_utf8(as.character(coded[[text]]))),
    spans = lapply(unname(spans), passages_json),
    content = attr(gold, "content"),
    options = py_arguments("level")
  )
  call_python("spans_validate", arguments)
}

# Returns the passages of a text as JSON; NULL if the text has no answer.
passages_json <- function(x) {
  if (is.null(x)) {
    return(NULL)
  }
  rows <- data.frame(
    label = as_utf8(as.character(x$label)),
    start = as.integer(x$start),
    end = as.integer(x$end)
  )
  as.character(jsonlite::toJSON(rows, dataframe = "rows"))
}

#' @export
print.llamaherd_spans <- function(x, ..., n = 20L, width = getOption("width")) {
  if (!is.null(attr(x, "content"))) {
    coders <- paste(attr(x, "coders"), collapse = ", ")
    n_texts <- attr(x, "n_texts")
    counts <- c(count_of(n_texts, "text"), count_of(nrow(x), "passage"))
    show_lines(sprintf("<llamaherd_spans> %s, coders %s", toString(counts), coders))
  }
  print_rows(plain_frame(x), n, width)
  invisible(x)
}

#' @export
print.llamaherd_span_validation <- function(x, ...) {
  show_lines("<llamaherd_span_validation>")
  print(plain_frame(x), digits = 3, ...)
  show_page(attr(x, "notes"))
  invisible(x)
}

#' Passages as a long table
#'
#' With a codebook of `type = "spans"`, [annotate_texts()] adds a list column `spans`: for each text
#' a data frame with a row for each passage. `coded_spans()` combines the data frames of all texts
#' into one table.
#'
#' @param coded A data frame from [annotate_texts()] with a codebook of `type = "spans"`, or some of
#'   its rows.
#' @param id Column that identifies the texts, unquoted or as a string. NULL uses the number of the
#'   row, in a column `row`.
#' @returns A data frame with one row per passage, in the order of the texts, and these columns:
#'
#'   * the column of `id`, with its name.
#'   * `label`: a factor.
#'   * `quote`: the passage.
#'   * `start`, `end`: positions of the first and last character of the passage in the text, as
#'     [substr()] counts them.
#'
#'   A text without a passage has no row, and a text without an answer has no row; the column
#'   `error` of `coded` distinguishes the two cases.
#' @seealso [codebook()], [annotate_texts()], [type_quote()] for the length of passages
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' news <- read.csv(system.file("extdata", "headlines.csv", package = "llamaherd"))
#' news <- news[c(1, 31), ]
#' actors <- codebook(
#'   "Mark who acts, and what is done.",
#'   labels = c(actor = "A person, a group, a firm.", action = "What is done."),
#'   type = "spans",
#'   max_spans = 2,
#'   quote = type_quote(least = 1, most = 8)
#' )
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' coded <- annotate_texts(news, text, actors, context)
#' passages <- coded_spans(coded)
#' passages
#' substr(news$text[passages$row], passages$start, passages$end)
coded_spans <- function(coded, id = NULL) {
  coded <- check_data(coded, "coded")
  name <- as.list(attr(coded, "llamaherd")$columns)$spans %||% "spans"
  spans <- coded[[name]]
  if (!is.list(spans) || is.data.frame(spans)) {
    hint <- "The codebook needs `type = \"spans\"`."
    must <- "a data frame from annotate_texts() with a column of passages"
    abort_argument("coded", must, coded, hint = hint)
  }
  column <- columns_named(rlang::enquo(id), coded, "id")
  if (length(column) > 1 || isTRUE(column %in% c("label", "quote", "start", "end"))) {
    must <- "one column, not called label, quote, start or end"
    abort_argument("id", must, column)
  }
  rows <- rep(seq_along(spans), vapply(spans, NROW, 1L))
  ids <- if (is.null(column)) rows else coded[[column]][rows]
  part_of <- function(part, empty) {
    unlist(lapply(spans, \(passages) as.vector(passages[[part]]))) %||% empty
  }
  levels <- as_text(attr(coded, "llamaherd")$span_labels)
  labels <- unlist(lapply(spans, \(passages) as.character(passages$label))) %||%
    character()
  result <- list(
    ids,
    label = factor(labels, if (length(levels) > 0) levels else unique(labels)),
    quote = part_of("quote", character()),
    start = part_of("start", integer()),
    end = part_of("end", integer())
  )
  names(result)[[1]] <- column %||% "row"
  new_frame(result, length(rows))
}
