# Written by scripts/generate_options.py (make generated). Do not edit.

# Conversions of the options, see as_option() and check_sampling().
sampling_kinds <- c(
  max_tokens = "limit",
  top_k = "whole",
  top_p = "number",
  temperature = "number",
  repeat_last_n = "whole",
  penalty_repeat = "number",
  seed = "seed",
  min_p = "number",
  stop = "texts",
  ignore_eos = "flag",
  grammar = "strings",
  choices = "choices",
  schema = "schema",
  regex = "strings",
  quote_from = "sources"
)
further_kinds <- c(
  typical_p = "number",
  top_n_sigma = "number",
  penalty_freq = "number",
  penalty_present = "number",
  xtc_probability = "number",
  xtc_threshold = "number",
  dry_multiplier = "number",
  dry_base = "number",
  dry_allowed_length = "whole",
  dry_penalty_last_n = "whole",
  dry_breakers = "texts",
  dynatemp_range = "number",
  dynatemp_exponent = "number",
  mirostat = "whole",
  mirostat_tau = "number",
  mirostat_eta = "number",
  logit_bias = "bias",
  min_tokens = "whole",
  stop_token_ids = "tokens"
)
annotate_kinds <- c(
  method = "choice",
  calibrate = "choice",
  normalize = "choice",
  chat = "flag",
  thinking = "thinking",
  n_thoughts = "whole",
  variables = "variables",
  template = "text",
  merge_system = "flag",
  date = "date",
  distribution = "flag",
  split = "choice",
  part_tokens = "whole",
  journal = "path",
  evidence = "evidence",
  until = "whole",
  embeddings = "model",
  unsure = "number",
  larger = "model",
  on_error = "choice",
  seed = "whole",
  temperature = "number",
  max_tokens = "whole"
)

#' @rdname sampling_options
#' @param typical_p Cumulative probability of the locally typical tokens to draw from. 1 draws from
#'   all (arXiv 2202.00666).
#' @param top_n_sigma Maximum distance of a token's logit from the largest logit, in standard
#'   deviations of the logits. 0 or less draws from all.
#' @param penalty_freq Frequency penalty, subtracted from a token's logit once per occurrence.
#'   Considers the last `repeat_last_n` tokens. 0 turns it off.
#' @param penalty_present Presence penalty, subtracted once from the logit of a token that occurred.
#'   Considers the last `repeat_last_n` tokens. 0 turns it off.
#' @param xtc_probability Probability that XTC removes the most likely tokens. These are all tokens
#'   with at least the probability `xtc_threshold`, except the least likely of them. 0 turns it off.
#' @param xtc_threshold Minimum probability of a token that XTC removes.
#' @param dry_multiplier Strength of the DRY repetition penalty. 0 turns it off.
#' @param dry_base Base of the DRY penalty's growth per repeated token.
#' @param dry_allowed_length Number of tokens that may be repeated without DRY penalty.
#' @param dry_penalty_last_n Number of last tokens that DRY considers. 0 considers no tokens, -1
#'   considers all tokens.
#' @param dry_breakers Texts that end a repetition for DRY.
#' @param dynatemp_range Largest difference between the temperature of a token and `temperature`.
#'   The temperature of a token grows with the entropy of the probabilities, from `temperature`
#'   minus this number, but at least 0.001, to `temperature` plus this number. 0 turns it off (arXiv
#'   2309.02772).
#' @param dynatemp_exponent Exponent of the normalized entropy, from which `dynatemp_range` computes
#'   the temperature of a token. Larger values keep more tokens at low temperatures.
#' @param mirostat Version of Mirostat, 1 or 2, that replaces the filters. 0 turns it off (arXiv
#'   2007.14966).
#' @param mirostat_tau Target surprise of Mirostat.
#' @param mirostat_eta Learning rate of Mirostat.
#' @param logit_bias Numbers to add to the logits of tokens: a numeric vector with token ids as
#'   names, such as ``c(`42` = -Inf)`` to forbid token 42. NULL adds nothing.
#' @param min_tokens Minimum number of tokens of an answer. Until the answer has this many tokens,
#'   no token that ends an answer is drawn, and stop texts do not end the answer. The number is at
#'   most `max_tokens`. 0 sets no minimum. The option cannot be combined with schema, regex, grammar
#'   or choices.
#' @param stop_token_ids Tokens that end an answer, in addition to the model's end tokens, and are
#'   not part of the answer. With a schema, regex or grammar, these tokens end the answer only where
#'   the constraint allows its end. The tokens also end answers with `ignore_eos`.
#' @export
sampling_options <- function(
  ...,
  typical_p = 1,
  top_n_sigma = -1,
  penalty_freq = 0,
  penalty_present = 0,
  xtc_probability = 0,
  xtc_threshold = 0.1,
  dry_multiplier = 0,
  dry_base = 1.75,
  dry_allowed_length = 2L,
  dry_penalty_last_n = -1L,
  dry_breakers = c("\n", ":", "\"", "*"),
  dynatemp_range = 0,
  dynatemp_exponent = 1,
  mirostat = 0L,
  mirostat_tau = 5,
  mirostat_eta = 0.1,
  logit_bias = NULL,
  min_tokens = 0L,
  stop_token_ids = NULL
) {
  call <- match.call()
  given_settings(rlang::enquos(...), call, rlang::current_env())
}

#' @rdname annotate_texts
#' @param method Method of coding. `"classify"` computes probabilities of labels. `"generate"`
#'   generates the label under a constraint that allows only the labels. `"auto"` generates if the
#'   codebook has fields; otherwise it classifies.
#' @param columns Names of the new columns: a prefix for all names, or a named vector such as
#'   `c(label = "topic", prob = NA)`, with NA for columns to leave out. The name `p_` in the vector
#'   `columns` sets the prefix of the columns with the probabilities of all labels.
#' @param calibrate Correction of the probabilities for the model's preference for some labels.
#'   `"batch"` fits the correction to these rows and assumes that all labels are about equally
#'   frequent: rare labels get too many texts. `"contextual"` fits it to prompts without content.
#'   See [calibrate_batch()].
#' @param normalize Method for comparing labels of different lengths, see [classify_parallel()].
#' @param chat Apply the model's chat template to each prompt.
#' @param thinking Maximum number of tokens of a thought before the answer. TRUE is 1,024; a
#'   [thinking()] also sets markers and the message. With NULL and FALSE, texts are coded without a
#'   thought; with NULL, a warning is issued once if the model would think. Needs `chat`.
#' @param n_thoughts Number of thoughts for each text. Probabilities are means over the thoughts,
#'   see [classify_parallel()]. The option has an effect only with the method `"classify"`. Needs
#'   `thinking`.
#' @param variables Further variables of the chat template, by name. The variables are recorded, so
#'   JSON must be able to represent their values. Needs `chat`.
#' @param template Jinja template to use in place of the model's chat template. Needs `chat`.
#' @param merge_system Put the system text into the first user message if the template refuses a
#'   system role. Needs `chat`.
#' @param date Day that the chat template writes into prompts, a Date or `"2026-01-31"`. NULL uses
#'   the day of the first result in the journal. Without such a result, NULL uses the date of
#'   [with_chat_date()], and outside of `with_chat_date()` today.
#' @param distribution Add a column for the probability of each number of a scale, `"p_<number>"`.
#'   The option applies only to codebooks of type `"scale"`; for other codebooks the columns of
#'   probabilities are always added.
#' @param split Treatment of texts that are too long. NULL reports an error in their rows. The other
#'   values divide texts into parts of similar length. `"first"` and `"last"` code only the first or
#'   last part. `"majority"` takes the label of most parts, in a tie the label with the larger mean
#'   probability. `"mean"` takes the mean of the parts' probabilities. `"all"` takes the passages of
#'   all parts, for codebooks of type `"spans"`. A quote (`evidence`) is from the part that supports
#'   the label most.
#' @param part_tokens Maximum number of tokens of a part. NULL uses 2,048, or fewer if the context
#'   has fewer cells. A text that fits is not divided.
#' @param journal Path of a file that stores results as they are finished. See
#'   [generate_parallel()]. TRUE creates a file in the working directory, named after the codebook's
#'   hash and the model's file, and prints its path to stderr.
#' @param evidence Let the model quote the text that supports each label. The columns are `"quote"`,
#'   `"start"` and `"end"`. With TRUE a quote has 3 to 40 words; [type_quote()] sets other lengths.
#'   The quote is a verbatim part of the text, written after the label.
#' @param until Number of texts, drawn at random, that the model labels. A classifier on
#'   `embeddings` (head) is fitted to their probabilities and labels all other texts; the model then
#'   labels the texts with the head's lowest probabilities, see `unsure`. The column `"step"` has
#'   the step that labelled each text. `until` requires one label per text and the method
#'   `"classify"`.
#' @param embeddings Model for the embeddings of texts, for `until`: a model from [model_load()], or
#'   the path of its file.
#' @param unsure Share of the texts that are labelled a second time. The texts with the lowest
#'   probability are labelled again. With `larger`, the larger model labels these texts; with only
#'   `until`, the model itself labels them.
#' @param larger Second model, which labels again the texts whose label from the first step has a
#'   low probability, see `unsure`: a context from [context_create()], or the path of a model file.
#'   You can use `larger` with or without `until`.
#' @param on_error Action when a text fails. `"continue"` codes all other texts, `"return"` finishes
#'   only the running texts, `"stop"` ends at once and signals an error.
#' @param seed Seed of the random numbers. The seed has an effect only with the method `"generate"`
#'   and with several thoughts.
#' @param temperature Sampling temperature. The option has an effect only with the method
#'   `"generate"`; 0 takes the most likely tokens.
#' @param max_tokens Maximum number of tokens to generate per text. The option has an effect only
#'   with the method `"generate"`.
#' @param progress Show a progress bar.
#' @export
annotate_texts <- function(
  data,
  text,
  codebook,
  context,
  ...,
  method = c("auto", "classify", "generate"),
  columns = NULL,
  calibrate = NULL,
  normalize = c("sum", "token", "byte", "pmi"),
  chat = FALSE,
  thinking = NULL,
  n_thoughts = 1L,
  variables = NULL,
  template = NULL,
  merge_system = FALSE,
  date = NULL,
  distribution = FALSE,
  split = NULL,
  part_tokens = NULL,
  journal = NULL,
  evidence = FALSE,
  until = NULL,
  embeddings = NULL,
  unsure = 0.1,
  larger = NULL,
  on_error = c("continue", "return", "stop"),
  seed = 1234L,
  temperature = 0,
  max_tokens = 512L,
  progress = interactive(),
  verbosity = 0L
) {
  check_dots(rlang::enquos(...))
  env <- rlang::current_env()
  code_data(data, text, rlang::enquo(text), codebook, context, env)
}
