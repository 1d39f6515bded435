#' Compute embeddings of texts
#'
#' @description
#' Computes an embedding of each text: a numeric vector. Texts with similar meaning have vectors
#' with similar directions. Many texts are computed together, and a text that occurs several times
#' is computed only once. A text that fails becomes a row of NA.
#'
#' One call with all texts is fastest. The model keeps its memory between calls, so a loop over
#' single texts is fast, too.
#'
#' @section Models:
#' Models trained for embeddings, such as all-MiniLM-L6-v2, give the best results. Load such models
#' with [model_load()]. Many of these models are encoders like BERT, which cannot generate text.
#' Generative models have embeddings, too, but embeddings of small models carry little information.
#' Some models expect a prefix before each text, such as `"query: "`; see the descriptions of these
#' models.
#'
#' @section Interrupting a call:
#' Ctrl-C ends the call within a fraction of a second with an interrupt of class
#' `llamaherd_interrupt`, whose `results` is the matrix with NA in the rows that were not computed.
#' [last_results()] also returns this matrix.
#'
#' @param model A `llamaherd_model` from [model_load()], or a `llamaherd_context`, whose model is
#'   used.
#' @param texts Character vector; names and NA are allowed. Or a list with one element per text: a
#'   string or an integer vector of token ids. Texts are never read as special tokens.
#' @param pooling How the vectors of a text's tokens are combined: `"mean"`, or the vector of the
#'   first (`"cls"`) or the `"last"` token. `"auto"` uses the setting of the model's file, or
#'   `"mean"`.
#' @param normalize TRUE scales vectors to length 1, so that `x %*% t(x)` contains the cosine
#'   similarities.
#' @param truncate TRUE cuts texts that are longer than the model's maximum; with FALSE these texts
#'   fail.
#' @param deterministic TRUE computes each text alone. Computing each text alone is slower than
#'   computing texts together, but the vector of a text is then identical to the last bit,
#'   regardless of the other texts in the call.
#' @param n_threads Number of threads. NULL uses the number of physical cores.
#' @param progress TRUE shows a progress bar.
#' @param verbosity Negative values suppress warnings; 2 or more adds a line of statistics.
#' @returns A numeric matrix with one row per text, in the order of `texts`, with their names as row
#'   names. It prints as a summary; `print(unclass(x))` prints all numbers. Rows of texts that
#'   are NA or failed are NA, with one warning. Attributes: `errors`, the reason why a text failed,
#'   NA for all other texts; `stats`, statistics of the call.
#' @seealso [model_load()]
#' @concept vectors
#' @concept cosine similarity
#' @concept loop of single texts
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' # Models for embeddings, such as all-MiniLM-L6-v2, distinguish meanings better.
#' texts <- c(a = "A cat sleeps.", b = "A dog barks.", c = "Shares fell by nine percent.")
#' vectors <- embed_parallel(model, texts)
#' tcrossprod(vectors) # cosines
#' close(model)
embed_parallel <- function(
  model,
  texts,
  pooling = c("auto", "mean", "cls", "last"),
  normalize = TRUE,
  truncate = FALSE,
  deterministic = FALSE,
  n_threads = NULL,
  progress = interactive(),
  verbosity = 0L
) {
  check_given(model)
  object <- check_model_or_context(model)
  texts <- as_prompts(texts, "texts")
  names <- c("pooling", "normalize", "truncate", "deterministic", "n_threads")
  options <- py_arguments(names)
  vectors <- run_call(
    c("model_start", "embed"),
    task_vectors,
    object,
    texts,
    options,
    verbosity,
    progress
  )
  keeping(vectors, {
    tell_failures(vectors, "continue", verbosity)
    loaded <- if (inherits(model, "llamaherd_context")) model$model else model
    document_event(
      "embed_parallel",
      model = base_name(loaded$path),
      n_texts = nrow(vectors),
      n_failed = sum(!is.na(attr(vectors, "errors"))),
      n_embd = ncol(vectors),
      input_hash = lines_sha256(texts$text),
      settings = options[lengths(options) > 0]
    )
  })
  vectors
}

# Adds names, and the reasons of failures that only R knows.
task_vectors <- function(vectors, texts) {
  attr(vectors, "errors") <- errors_of(vectors, texts)
  attr(vectors, "dimnames") <- if (!is.null(texts$names)) list(texts$names, NULL)
  vectors
}

#' @export
format.llamaherd_vectors <- function(x, ...) format(plain_matrix(x), ...)

#' @export
t.llamaherd_vectors <- function(x) t(plain_matrix(x)) # its rows are no texts

#' @export
print.llamaherd_vectors <- function(x, ..., n = 6L) {
  n_failed <- sum(!is.na(attr(x, "errors")))
  show_lines(sprintf(
    "<llamaherd_vectors> %s x %s dimensions%s",
    count_of(nrow(x), "text"),
    big(ncol(x)),
    if (n_failed > 0) sprintf(", %s failed", big(n_failed)) else ""
  ))
  n <- check_whole(n)
  first <- utils::head(plain_matrix(x), n)
  if (length(first) > 0) {
    cells <- matrix(formatC(first, digits = 3L, format = "f", width = 7L), nrow(first))
    cells[is.na(first)] <- "     NA"
    name <- rownames(x) %||% sprintf("[%d,]", seq_len(nrow(x)))
    label <- format(cut_to(encode(utils::head(name, n)), 20L))
    most <- (getOption("width") - nchar(label[[1]], "width") - 4L) %/% 8L
    columns <- seq_len(max(1L, min(ncol(x), most)))
    more <- if (length(columns) < ncol(x)) " ..."
    lines <- apply(cells[, columns, drop = FALSE], 1L, paste, collapse = " ")
    show_lines(paste0(label, " ", lines, more))
  }
  show_more(nrow(x) - n, "row")
  invisible(x)
}

#' @export
`[.llamaherd_vectors` <- function(x, ...) {
  part <- plain_matrix(x)[...]
  if (!is.matrix(part)) {
    return(part)
  }
  structure(part, class = class(x))
}

# Returns vectors as a matrix without attributes of this package.
plain_matrix <- function(x) {
  x <- unclass(x)
  attributes(x) <- attributes(x)[intersect(names(attributes(x)), c("dim", "dimnames"))]
  x
}
