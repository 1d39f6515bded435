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
  check_given(gold)
  if (!is.null(embeddings) && (!is.matrix(embeddings) || !is.numeric(embeddings))) {
    abort_argument("embeddings", "a matrix of numbers", embeddings)
  }
  result <- call_python(
    "choose_examples",
    py_arguments(
      c("gold", "k", "codebook", "by", "coded", "context"),
      embeddings = if (!is.null(embeddings)) {
        tagged("array", content = rows_of(unclass(embeddings)))
      },
      settings = list(...)
    )
  )
  effect <- result$effect
  if (isTRUE(result$is_gain)) {
    cli::cli_inform("{effect}.")
  } else if (!is.null(effect)) {
    warn("{effect}.", "examples")
  }
  result$codebook
}

#' @rdname choose_examples
#' @export
disagreements <- function(coded, gold, parts = "explore", peek = FALSE) {
  check_given(coded)
  coded <- labels_given(coded)
  arguments <- py_arguments("gold", "parts", "peek", coded = coded)
  result <- call_python("disagreements", arguments)
  missing <- result$n_missing
  if (missing > 0) {
    warn(
      "{missing} coded text{?s} {?has/have} no label and {?is/are} left out.",
      "failed"
    )
  }
  result$table
}

#' Split a gold-standard sample to explore, select and evaluate
#'
#' @description
#' If you choose the best of several codebooks and measure its accuracy on the same texts, the
#' measured accuracy is too high. `gold_split()` therefore divides a gold-standard sample at random
#' into three parts:
#'
#' * `explore`: write codebooks, inspect wrong labels ([disagreements()]), choose examples
#'   ([choose_examples()]);
#' * `select`: compare codebooks ([compare_codebooks()]);
#' * `evaluate`: measure the chosen codebook, once ([evaluate_codebook()]).
#'
#' Each stratum of the draw is divided, so that each part is itself a probability sample. The
#' inclusion probability of a text in a part is its probability in the draw, times the share of the
#' drawn texts of its stratum that are in the part. `gold_part()` returns a part, which [validate()]
#' and [estimate()] accept like any other sample.
#'
#' The split is stored in the sample: [write_gold()] writes the split and [read_gold()] reads it.
#' `gold_size(compare =)` computes how many texts `select` needs.
#'
#' @param gold A `llamaherd_gold`, with or without codes; or the path of its CSV file: the split is
#'   then stored in the JSON file next to the CSV file.
#' @param explore,select,evaluate Shares of the texts, with sum 1. `explore` may be 0.
#' @param seed A whole number. `NULL` uses a random seed, which `design` of the result reports.
#' @param part `"explore"`, `"select"` or `"evaluate"`. `"evaluate"` is locked until
#'   [evaluate_codebook()] has unlocked it.
#' @returns A `llamaherd_gold`. `gold_split()` returns the whole sample with the element `parts`.
#'   `gold_part()` returns a sample with only the texts of the part.
#' @seealso [compare_codebooks()], [gold_sample()], [gold_size()]
#' @export
#' @examplesIf llamaherd::llamaherd_available()
#' news <- read.csv(system.file("extdata", "headlines.csv", package = "llamaherd"))
#' gold <- gold_sample(news, 60, text = text, names = unique(news$topic), seed = 1)
#' gold <- gold_split(gold, 0.2, 0.4, 0.4, seed = 1)
#' table(gold$parts)
#' gold_part(gold, "explore")
gold_split <- function(gold, explore = 0.2, select = 0.5, evaluate = 0.3, seed = NULL) {
  call_python("gold_split", py_arguments("gold", "explore", "select", "evaluate", "seed"))
}

#' @rdname gold_split
#' @export
gold_part <- function(gold, part = c("explore", "select", "evaluate")) {
  call_python("gold_part", py_arguments("part", gold = gold_for_python(gold)))
}

# Converts a sample for Python, or returns the path of its CSV file.
gold_given <- function(gold) {
  check_given(gold)
  if (rlang::is_string(gold)) {
    return(expand_path(gold))
  }
  check_class(gold, "llamaherd_gold", or = ", or the path of its CSV file")
  gold_for_python(gold)
}
