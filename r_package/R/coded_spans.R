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
  error_call <- rlang::current_env()
  coded <- check_data(coded, error_call, "coded")
  name <- as.list(attr(coded, "llamaherd")$columns)$spans %||% "spans"
  spans <- coded[[name]]
  if (!is.list(spans) || is.data.frame(spans)) {
    hint <- "The codebook needs `type = \"spans\"`."
    must <- "a data frame from annotate_texts() with a column of passages"
    abort_argument("coded", must, coded, error_call, hint)
  }
  column <- columns_named(rlang::enquo(id), coded, "id", error_call)
  if (length(column) > 1 || isTRUE(column %in% c("label", "quote", "start", "end"))) {
    must <- "one column, not called label, quote, start or end"
    abort_argument("id", must, column, error_call)
  }
  rows <- rep(seq_along(spans), vapply(spans, NROW, 1L))
  ids <- if (is.null(column)) rows else coded[[column]][rows]
  bound <- function(part, empty) {
    unlist(lapply(spans, \(each) as.vector(each[[part]]))) %||% empty
  }
  levels <- as_text(attr(coded, "llamaherd")$span_labels)
  labels <- unlist(lapply(spans, \(each) as.character(each$label))) %||% character()
  result <- list(
    ids,
    label = factor(labels, if (length(levels) > 0) levels else unique(labels)),
    quote = bound("quote", character()),
    start = bound("start", integer()),
    end = bound("end", integer())
  )
  names(result)[[1]] <- column %||% "row"
  new_frame(result, length(rows))
}
