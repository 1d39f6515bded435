#' Compare texts in pairs, and rank them
#'
#' @description
#' `compare_pairs()` draws pairs of texts, asks the model which text of each pair has more of a
#' quality, and estimates a strength of each text by the model of Bradley and Terry.
#' `pair_agreement()` compares the strengths with pairs that people compared, or with known scores.
#'
#' @section How a pair is scored:
#' Each pair is scored in both orders, with one prompt each. The probabilities of the two labels,
#' such as A and B, give log-odds. The result of the pair is the mean of the log-odds in both
#' orders, so a constant preference for a position cancels. No text is generated. Ties need no
#' special rule: the log-odds of a tie are near 0.
#'
#' @section Which pairs are drawn:
#' With `design = "adaptive"` the first pairs form two random cycles through all texts, so that all
#' texts are connected by pairs. Then rounds of the most informative pairs alternate with rounds of
#' random pairs. A pair is informative if its outcome is uncertain or if little information on its
#' two texts exists (Glickman and Jensen 2005). Without the random pairs, the differences of
#' strengths would be exaggerated, and intervals would be too short. No pair is drawn twice. The
#' same `seed`, texts and model draw the same pairs.
#'
#' @section Standard errors:
#' With few pairs per text, the maximum of the likelihood exaggerates the differences of strengths.
#' The fit removes this bias of differences (Firth 1993; Kosmidis and Firth 2009). The result of a
#' pair is a probability, not a win or a loss, so the covariance is the sandwich estimator of a
#' fractional logistic regression with leverages (HC3), with t quantiles. Intervals describe how
#' strengths would vary if other pairs were drawn for the same model. Intervals do not show whether
#' the model is right: use `pair_agreement()` to compare the model with people.
#'
#' @param texts Texts, 2 to 5,000: a character vector without NA. The names of the vector identify
#'   the texts; without names the texts are called `"1"`, `"2"` and so on.
#' @param question Question about two texts, such as `"Which text is angrier?"`.
#' @param context Context from [context_create()].
#' @param ... Must be empty: all further arguments must be named.
#' @param n_pairs Number of pairs. `NULL` uses six times the number of texts, or the number of all
#'   pairs if that is smaller.
#' @param design `"adaptive"` or `"random"`.
#' @param labels Names of the first and the second text in the prompt; the model answers with one of
#'   these names.
#' @param layout Text of the prompt with the placeholders `{question}`, `{first}` and `{second}`,
#'   and `{a}` and `{b}` for the labels. `NULL` uses an English prompt.
#' @param level Confidence level of the intervals.
#' @param seed Seed of the design, and of thoughts.
#' @param journal Path of a file that stores all results. The same call later computes only missing
#'   results.
#' @param progress,verbosity See [generate_parallel()].
#' @param chat,system,thinking,variables,template,prefix,merge_system,n_thoughts See
#'   [classify_parallel()].
#' @returns `compare_pairs()`: a `llamaherd_pairs`, a list:
#'
#'   * `strengths`: a data frame with one row per text: `name`, `text`, `strength` (mean 0; the
#'     difference between the strengths of two texts is the log-odds that the first text wins),
#'     `std_error`, `low`, `high`, `rank`, `n_pairs`. [as.data.frame()] returns it.
#'   * `pairs`: a data frame with one row per pair: `first`, `second`, `round`, `log_odds` and
#'     `prob` (log-odds and probability that the first text wins), `position_bias` (log-odds for the
#'     text that is read first), `consistent` (TRUE if both orders have the same winner),
#'     `coverage`, `error`.
#'   * `position_bias`: mean position bias (`value`) with its interval (`low`, `high`);
#'     `consistent`: share of pairs with the same winner in both orders.
#'   * `reliability`: share of the variance of strengths that is not due to estimation error;
#'     `dispersion`: variance of the results relative to the binomial variance; `df`: degrees of
#'     freedom of the intervals.
#'   * `connected`: TRUE if pairs connect all texts; `n_parts`: number of connected parts;
#'     `converged`: TRUE if the fit converged; `correlations`: for each round, the rank correlation
#'     between the strengths after this round and after the previous round.
#'   * `notes`: texts of the warnings.
#'
#'   `summary()` prints only the statistics that show whether the strengths can be trusted, such as
#'   reliability and position bias. `plot()` draws the strengths with
#'   intervals.
#'
#'   `pair_agreement()`: a data frame with the columns `measure`, `value`, `low`, `high`, `n`. The
#'   measures are `accuracy`, the share of people's pairs whose winner has the larger strength;
#'   `direct`, the share of people's pairs whose winner the model chose in the same pair; `pearson`
#'   and `spearman`, correlations with known scores.
#' @references Bradley, Terry, *Rank Analysis of Incomplete Block Designs: I. The Method of Paired
#'   Comparisons*, Biometrika 39, 1952. Glickman, Jensen, *Adaptive Paired Comparison Design*,
#'   J. Stat. Planning and Inference 127, 2005. Aronow, Samii, Assenova, *Cluster-Robust Variance
#'   Estimation for Dyadic Data*, Political Analysis 23, 2015. Firth, *Bias Reduction of Maximum
#'   Likelihood Estimates*, Biometrika 80, 1993. Kosmidis, Firth, *Bias Reduction in Exponential
#'   Family Nonlinear Models*, Biometrika 96, 2009.
#' @seealso [number_scale()], which asks for a number instead; [classify_parallel()]
#' @concept Bradley-Terry
#' @export
#' @examplesIf !is.null(llamaherd_example_model())
#' model <- model_load(llamaherd_example_model())
#' context <- context_create(model)
#' texts <- c(
#'   calm = "The train leaves at nine.",
#'   angry = "I hate this! Never again!",
#'   glad = "What a lovely morning.",
#'   sad = "She cried all night."
#' )
#' found <- compare_pairs(texts, "Which text is angrier?", context)
#' found
#' if (requireNamespace("ggplot2", quietly = TRUE)) {
#'   plot(found)
#' }
#' people <- data.frame(first = "calm", second = "angry", winner = "angry")
#' pair_agreement(found, people, known = c(calm = 0, angry = 5, glad = 0, sad = 1))
compare_pairs <- function(
  texts,
  question,
  context,
  ...,
  n_pairs = NULL,
  design = c("adaptive", "random"),
  labels = c("A", "B"),
  layout = NULL,
  level = 0.95,
  seed = 1234L,
  journal = NULL,
  progress = interactive(),
  verbosity = 0L,
  chat = FALSE,
  system = NULL,
  thinking = NULL,
  variables = NULL,
  template = NULL,
  prefix = NULL,
  merge_system = FALSE,
  n_thoughts = 1L
) {
  env <- rlang::current_env()
  check_dots(rlang::enquos(...))
  check_given(question, "The question, such as \"Which text is angrier?\".")
  options <- chat_or_prompts(character(), "texts", env)$options
  call_python(
    "compare_pairs",
    py_arguments(
      c("question", "n_pairs", "design", "level"),
      texts = pair_texts(texts),
      context = check_context(context),
      labels = as_py_list(check_text(label_set(labels), "labels")),
      settings = Filter(
        Negate(is.null),
        c(py_arguments("layout", "seed", "journal", "n_thoughts"), options)
      )
    ),
    progress,
    verbosity,
    warns = "pairs"
  )
}

# Returns the texts by name; names must be unique.
pair_texts <- function(x) {
  texts <- check_text(x, "texts")
  names <- as_utf8(rlang::names2(x))
  names <- if (all(names %in% "")) as.character(seq_along(texts)) else names
  if (anyNA(texts) || anyNA(names) || anyDuplicated(names) || any(names == "")) {
    must <- "texts without NA, with unique names or without names"
    abort_argument("texts", must, x)
  }
  stats::setNames(as.list(texts), names)
}

#' @rdname compare_pairs
#' @param comparison Return value of `compare_pairs()`.
#' @param pairs Data frame of pairs that people compared, with the columns `first`, `second` and
#'   `winner`, which contain names of texts. For a tie `winner` is NA, and the pair is left out.
#' @param known Known scores: a number for each text, or numbers named by texts.
#' @export
pair_agreement <- function(comparison, pairs = NULL, known = NULL, level = 0.95) {
  check_class(comparison, "llamaherd_pairs")
  columns <- c("first", "second", "winner")
  if (!is.null(pairs) && !(is.data.frame(pairs) && all(columns %in% names(pairs)))) {
    must <- "a data frame with the columns first, second and winner"
    abort_argument("pairs", must, pairs)
  }
  names <- comparison$strengths$name
  if (!is.null(known)) {
    is_named <- !is.null(names(known))
    fits <- if (is_named) all(names(known) %in% names) else length(known) == length(names)
    if (!(is.numeric(known) || all(is.na(known))) || !fits) {
      must <- sprintf("%d numbers, or numbers with names of texts", length(names))
      abort_argument("known", must, known)
    }
    known <- as_py_numbers(if (is_named) known[names] else known)
  }
  call_python(
    "pair_agreement",
    py_arguments(
      "level",
      comparison = as_python(comparison),
      pairs = if (!is.null(pairs)) {
        tagged("frame", content = lapply(pairs[columns], \(x) text_list(as_utf8(x))))
      },
      known = known
    )
  )
}

#' @export
summary.llamaherd_pairs <- function(object, ...) {
  structure(
    list(page = sub("^<\\w+: (.*)>", "<llamaherd_pairs> \\1", object$checks)),
    class = c("summary.llamaherd_pairs", "llamaherd_object")
  )
}
