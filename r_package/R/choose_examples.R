#' List wrong labels and choose examples in the part `explore` of a sample
#'
#' @description
#' `disagreements()` lists the texts whose label differs from the human code, with codes, labels,
#' probabilities and, if the model thought, its thoughts. `choose_examples()` adds coded texts to a
#' codebook as examples. Both functions use the part `explore` of a split sample, see
#' [gold_split()].
#'
#' @section Examples:
#' Examples are chosen for each label in turn, so that all labels get about the same number. `by =
#' "diverse"` first chooses the most typical text of each label, which is nearest to the other texts
#' of the label. After this, `by = "diverse"` always chooses the text that is farthest from all
#' examples so far. The distance is 1 minus the cosine similarity of `embeddings`, or of character
#' trigrams, weighted by their rarity (tf-idf). `by = "hardest"` first chooses texts with a wrong
#' label, in order of decreasing probability of this label, and then texts whose right label has the
#' lowest probability.
#'
#' Examples can make labels worse, above all of small models: on 33 news texts, 8 examples changed
#' the accuracy of one model from 0.70 to 0.55, and that of another one from 0.61 to 1.00. With
#' `context`, the other coded texts of `explore` are coded with and without the examples, and a
#' warning states the change of the accuracy; for a clear gain it is a message.
#' [compare_codebooks()] states the change on the texts of `select`.
#'
#' Texts that occur in `select` or `evaluate` are never chosen; [compare_codebooks()] and
#' [evaluate_codebook()] refuse codebooks with such examples.
#'
#' @param gold A coded `llamaherd_gold` with a split, see [gold_split()]; or the path of its CSV
#'   file.
#' @param k Number of examples. If there are fewer than `k` coded texts, fewer examples are chosen,
#'   with a warning.
#' @param codebook A codebook. The new examples are added after the existing examples of the
#'   codebook.
#' @param by `"diverse"` or `"hardest"`.
#' @param coded Return value of [annotate_texts()] that contains the texts of the part; it may also
#'   contain other texts. `choose_examples()` uses `coded` only with `by = "hardest"`.
#' @param embeddings For `by = "diverse"`: a matrix with one row per text of the sample, in the
#'   order of the sample, see [embed_parallel()].
#' @param context A context of the model, to measure the effect of the examples. NULL does not
#'   measure it.
#' @param ... Settings of [annotate_texts()] for this measurement, such as `chat = TRUE`.
#' @param parts Part or parts of the sample. `"evaluate"` is locked until [evaluate_codebook()] has
#'   unlocked it.
#' @param peek TRUE reads `"evaluate"` although it is locked, with a warning.
#' @returns `choose_examples()`: a codebook with `k` more examples.
#'
#'   `disagreements()`: a data frame with one row per text, in order of decreasing probability of
#'   the label: `id`, `part`, `text`, `code` (the code of most coders), `code_<coder>` if there are
#'   several coders, `label`, `prob` (probability of the label), `prob_code` (probability of the
#'   code), and `thinking` if the model thought.
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
  embeddings = NULL,
  context = NULL,
  ...
) {
  error_call <- rlang::current_env()
  check_given(gold)
  check_given(k)
  check_codebook(codebook)
  if (!is.null(embeddings) && (!is.matrix(embeddings) || !is.numeric(embeddings))) {
    abort_argument("embeddings", "a matrix of numbers", embeddings, error_call)
  }
  found <- call_python(
    "choose_examples",
    list(
      gold = gold_given(gold, error_call),
      k = py_value(k),
      codebook = as_python(codebook),
      by = py_value(by),
      coded = if (!is.null(coded)) labels_given(coded, error_call),
      embeddings = if (!is.null(embeddings)) {
        tagged("array", content = rows_of(unclass(embeddings)))
      },
      context = if (!is.null(context)) check_context(context, "context", error_call),
      settings = list(...)
    ),
    error_call = error_call
  )
  effect <- found[["effect"]]
  if (isTRUE(found[["is_gain"]])) {
    cli::cli_inform("{effect}.")
  } else if (!is.null(effect)) {
    warn("{effect}.", "examples", error_call)
  }
  from_python(found[["codebook"]])
}

#' @rdname choose_examples
#' @export
disagreements <- function(coded, gold, parts = "explore", peek = FALSE) {
  error_call <- rlang::current_env()
  found <- call_python(
    "disagreements",
    list(
      coded = labels_given(coded, error_call),
      gold = gold_given(gold, error_call),
      parts = py_values(parts),
      peek = py_value(peek)
    ),
    error_call = error_call
  )
  missing <- found$n_missing
  if (missing > 0) {
    warn(
      "{missing} coded text{?s} {?has/have} no label and {?is/are} left out.",
      "failed",
      error_call
    )
  }
  found$table
}
