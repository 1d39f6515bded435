#' Make vectors of texts
#'
#' @description
#' Gives each text a vector of numbers, an embedding: texts that mean about the same get
#' vectors that point in about the same direction. Many texts are computed at once; equal
#' ones once; one that fails becomes a row of NA and the others get their vectors.
#'
#' @section Models:
#' Best is a model made for it, such as all-MiniLM-L6-v2 (BERT and the like, which have an
#' encoder only and cannot generate), loaded with [model_load()]. Any model that generates has
#' vectors, too, but those of small ones say little. Some models want a few words before
#' each text, such as `"query: "`: their descriptions say so.
#'
#' @section Ctrl-C:
#' Ctrl-C ends the call within a fraction of a second, and goes on as an interrupt of class
#' `llamaherd_interrupt`, which has the matrix as `results`: rows that were not computed are
#' NA. [last_results()] has it as well.
#'
#' @param model A `llamaherd_model` from [model_load()], or a `llamaherd_context`, whose model
#'   is taken.
#' @param texts Character vector, names and NA allowed; or a list with a string or an integer
#'   vector of token ids for each text. The texts of special tokens in them mean nothing
#'   special.
#' @param pooling What becomes of the vectors of a text's tokens: `"mean"`, that of the first
#'   (`"cls"`) or of the `"last"` one. `"auto"`: what the model's file says, and `"mean"` where
#'   it says nothing.
#' @param normalize TRUE makes vectors of length 1, so that `x %*% t(x)` has the cosines.
#' @param truncate TRUE cuts texts that are longer than the model was trained for; otherwise
#'   they fail.
#' @param deterministic TRUE computes each text by itself: its vector is then the same to the
#'   last bit, whatever else is asked for. It takes longer.
#' @param n_threads Number of threads; NULL: the physical cores.
#' @param progress TRUE shows a progress bar.
#' @param verbosity Negative: no warnings. From 2 on, also a line of statistics.
#' @returns A numeric matrix with a row for each text, in the order of `texts`, with their
#'   names as row names; none for no texts. A row of NA for each text that is NA or failed, and
#'   then one warning says so. Attributes: `errors`, a character vector with the reason for
#'   each text, NA where there is none; `stats`, statistics of the call.
#' @seealso [model_load()]
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' # Models made for it, such as all-MiniLM-L6-v2, tell meanings apart better.
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
  error_call <- rlang::current_env()
  object <- if (inherits(model, "llamaherd_context")) {
    check_context(model)
  } else {
    check_model(model)
  }
  texts <- as_prompts(texts, "texts", error_call)
  options <- list(
    pooling = check_choice(pooling, c("auto", "mean", "cls", "last")),
    normalize = check_flag(normalize),
    truncate = check_flag(truncate),
    deterministic = check_flag(deterministic),
    n_threads = if (!is.null(n_threads)) check_whole(n_threads, min = 1)
  )
  progress <- check_flag(progress)
  verbosity <- check_whole(verbosity)

  suspendInterrupts({
    run <- quietly(
      verbosity < 0,
      run_embed(object, texts$values, options, progress, error_call)
    )
    vectors <- as_vectors(run$columns, texts)
    if (run$interrupted) {
      the$last_results <- vectors
      is_interrupted(Sys.sleep(0))
      n <- nrow(vectors)
      n_done <- sum(is.na(attr(vectors, "errors")))
      message <- sprintf(
        "Interrupted: %d of %d %s embedded.",
        n_done,
        n,
        plural(n, "text")
      )
      interrupt(message, vectors, verbosity)
    }
  })
  report_vectors(vectors, verbosity, error_call)
  document_event("embed_parallel", \() {
    loaded <- if (inherits(model, "llamaherd_context")) model$model else model
    list(
      model = basename(loaded$path),
      n_texts = nrow(vectors),
      n_failed = sum(!is.na(attr(vectors, "errors"))),
      n_embd = ncol(vectors),
      input_hash = lines_sha256(texts$text),
      settings = options[lengths(options) > 0]
    )
  })
  vectors
}

run_embed <- function(object, values, options, progress, error_call) {
  run_in_slices(
    py_call("embed_start", object, values, options, error_call = error_call),
    \(job) py_call("embed_result", job, error_call = error_call),
    new_bar(progress),
    error_call
  )
}

# Python's bytes, float32 row by row, as a matrix.
as_vectors <- function(columns, texts) {
  n <- length(texts$values)
  numbers <- readBin(
    as.raw(columns[["vectors"]]),
    "numeric",
    n = n * columns[["n_embd"]],
    size = 4L,
    endian = "little"
  )
  errors <- as_text(columns[["errors"]])
  missing <- !is.na(texts$problems)
  errors[missing] <- sub("^the prompt", "the text", texts$problems[missing])
  vectors <- matrix(
    numbers,
    nrow = n,
    ncol = columns[["n_embd"]],
    byrow = TRUE,
    dimnames = if (!is.null(texts$names)) list(texts$names, NULL)
  )
  vectors[!is.na(errors), ] <- NA
  structure(
    vectors,
    errors = errors,
    stats = new_stats(columns[["stats"]])
  )
}

report_vectors <- function(vectors, verbosity, error_call) {
  if (verbosity >= 2) {
    cli::cli_inform("{attr(vectors, 'stats')$line}")
  }
  errors <- attr(vectors, "errors")
  failed <- which(!is.na(errors))
  if (verbosity < 0 || length(failed) == 0) {
    return(invisible())
  }
  n <- length(errors)
  shown <- utils::head(failed, 3)
  label <- labels_of(stats::setNames(errors, rownames(vectors)))[shown]
  bullets <- escape_cli(sprintf("%s: %s", label, errors[shown]))
  warn(
    c(
      "{length(failed)} of {n} text{?s} failed, and {?is/are} NA in the result.",
      stats::setNames(bullets, rep("x", length(bullets))),
      i = "{.code attr(result, \"errors\")} has all reasons."
    ),
    "failed",
    error_call
  )
}
