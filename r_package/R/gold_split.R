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
  error_call <- rlang::current_env()
  check_given(gold)
  arguments <- c(
    py_arguments("explore", "select", "evaluate", "seed"),
    list(
      gold = gold_given(gold, error_call)
    )
  )
  call_python("gold_split", arguments, error_call = error_call)
}

#' @rdname gold_split
#' @export
gold_part <- function(gold, part = c("explore", "select", "evaluate")) {
  error_call <- rlang::current_env()
  arguments <- list(
    gold = tagged("gold", content = check_gold(gold, error_call)),
    part = py_value(part)
  )
  call_python("gold_part", arguments, error_call = error_call)
}

# Converts a sample for Python, or returns the path of its CSV file.
gold_given <- function(gold, error_call) {
  check_given(gold, error_call = error_call)
  if (rlang::is_string(gold)) {
    return(expand_path(gold))
  }
  if (!inherits(gold, "llamaherd_gold")) {
    must <- "a <llamaherd_gold> made by gold_sample() or read_gold(), or the path of its CSV file"
    abort_argument("gold", must, gold, error_call)
  }
  as_python(gold, "gold", error_call)
}
