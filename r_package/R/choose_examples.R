#' Read errors and choose examples from the texts to explore
#'
#' @description
#' `disagreements()` lists the texts whose label is not the human code, with codes, labels,
#' probabilities and thoughts of the model, if there are any. `choose_examples()` adds coded texts
#' to a codebook as examples. Both use the part `explore` of a split sample, see [gold_split()].
#'
#' @section Examples:
#' Labels take turns, so that each has about as many examples. `by = "diverse"` begins each label
#' with its most typical text, the one nearest to the others of the label, and then takes the text
#' that is farthest from all examples so far. The distance is 1 - the cosine similarity of
#' `embeddings`, or of character trigrams, weighted by their rarity (tf-idf). `by = "hardest"` takes
#' texts that the model got wrong, the most confident first, then those with the least probable
#' right label.
#'
#' Texts that occur in `select` or `evaluate` are never taken; [compare_codebooks()] and
#' [evaluate_codebook()] refuse codebooks with such examples.
#'
#' @param gold A coded `llamaherd_gold` with a split, see [gold_split()]; or the path of its CSV
#'   file.
#' @param k Number of examples. With fewer coded texts there are fewer, with a warning.
#' @param codebook A codebook. Its own examples stay, and come first.
#' @param by `"diverse"` or `"hardest"`.
#' @param coded Return value of [annotate_texts()] that has the texts of the part, alone or among
#'   others. For `choose_examples()` only with `by = "hardest"`.
#' @param embeddings For `by = "diverse"`: a matrix with one row per text of the sample, in its
#'   order, see [embed_parallel()].
#' @param parts Part or parts of the sample. `"evaluate"` is closed until [evaluate_codebook()] has
#'   opened it.
#' @param peek TRUE reads `"evaluate"` although it is closed, with a warning.
#' @returns `choose_examples()`: a codebook with `k` more examples.
#'
#'   `disagreements()`: a data frame with one row per text, the most confident labels first: `id`,
#'   `part`, `text`, `code` (of most coders), `code_<coder>` if there are several, `label`, `prob`
#'   (of the label), `prob_code` (of the code), and `thinking` if the model thought.
#' @seealso [compare_codebooks()], [codebook()]
#' @export
#' @examplesIf llamaherd::llamaherd_available()
#' news <- read.csv(system.file("extdata", "headlines.csv", package = "llamaherd"))
#' labels <- c("Sports", "Business", "Science", "Politics")
#' gold <- gold_sample(news, 60, text = text, names = labels, seed = 1)
#' coded <- data.frame(id = gold$ids, code = news$topic[gold$rows])
#' gold <- gold_split(read_gold(coded, gold), 0.4, 0.3, 0.3, seed = 1)
#' choose_examples(gold, 4, codebook("Label the topic of each news text.", labels))
choose_examples <- function(
  gold,
  k,
  codebook,
  by = c("diverse", "hardest"),
  coded = NULL,
  embeddings = NULL
) {
  error_call <- rlang::current_env()
  check_codebook(codebook)
  if (!is.null(embeddings) && (!is.matrix(embeddings) || !is.numeric(embeddings))) {
    abort_argument("embeddings", "a matrix of numbers", embeddings, error_call)
  }
  options <- list(
    by = check_choice(by, c("diverse", "hardest")),
    coded = if (!is.null(coded)) labels_given(coded, error_call),
    embeddings = if (!is.null(embeddings)) rows_of(unclass(embeddings))
  )
  k <- check_whole(k, min = 1)
  given <- gold_given(gold, error_call)
  content <- py_call("examples_choose", given, k, codebook$content, options)
  new_codebook(py_call("codebook_make", content))
}

#' @rdname choose_examples
#' @export
disagreements <- function(coded, gold, parts = "explore", peek = FALSE) {
  error_call <- rlang::current_env()
  labels <- labels_given(coded, error_call)
  given <- gold_given(gold, error_call)
  parts <- as_py_list(check_text(parts))
  found <- py_call("disagreements", labels, given, parts, check_flag(peek))
  missing <- found[["n_missing"]]
  if (missing > 0) {
    warn(
      "{missing} coded text{?s} {?has/have} no label and {?is/are} left out.",
      "failed",
      error_call
    )
  }
  made <- plain_columns(found[["columns"]])
  texts <- intersect(c("id", "part", "text", "code", "label", "thinking"), names(made))
  texts <- c(texts, grep("^code_", names(made), value = TRUE))
  made[texts] <- lapply(made[texts], as.character)
  made
}
