test_that("a conversation has memory", {
  context <- local_context()
  talk <- chat(context, "Be brief.", echo = FALSE)
  expect_identical(talk$ask("one"), "one!")
  expect_identical(talk$ask("two", thinking = TRUE), "two!")
  turns <- data.frame(
    role = c("system", "user", "assistant", "user", "assistant"),
    content = c("Be brief.", "one", "one!", "two", "two!"),
    thinking = c(NA, NA, NA, NA, "Hm. "),
    interrupted = FALSE
  )
  expect_identical(talk$turns(), turns)
  expect_identical(talk$last()$n_thinking_tokens, 2L)
  again <- chat(context, turns = turns, echo = FALSE)
  expect_identical(again$turns()[-1, -3], turns[-1, -3], ignore_attr = TRUE)

  expect_identical(talk$system(), "Be brief.")
  talk$system("Be rude.")
  expect_identical(talk$turns()$content[[1]], "Be rude.")
  expect_identical(talk$undo()$content, c("two", "two!"))
  expect_null(talk$last())
  expect_identical(talk$forget()$content, c("one", "one!"))
  expect_identical(nrow(talk$turns()), 1L)
})

test_that("forks are independent", {
  talk <- chat(local_context(), echo = FALSE)
  talk$ask("one")
  forks <- talk$fork(2)
  forks[[1]]$ask("two")
  expect_identical(lengths(lapply(forks, \(fork) fork$turns()$role)), c(4L, 2L))
  expect_identical(nrow(talk$turns()), 2L)
  expect_s3_class(talk$fork(), "llamaherd_chat")
})

test_that("many questions are asked at once", {
  talk <- chat(local_context(), echo = FALSE)
  answers <- talk$ask_all(c(a = "x", b = "y"), progress = FALSE)
  expect_s3_class(answers, "llamaherd_result")
  expect_identical(plain(answers), c(a = "x!", b = "y!"))
  expect_identical(nrow(talk$turns()), 0L)
})

test_that("answers are printed as they are written, and thoughts before them", {
  talk <- chat(local_context(), echo = TRUE)
  expect_output(talk$ask("one", thinking = TRUE), "^Hm. \n\none!\n?$")
  expect_output(expect_invisible(talk$ask("two")), "^two!\n?$")
  expect_output(talk$ask("three", echo = FALSE), NA)
  expect_page(talk)
})

test_that("settings are checked and sent", {
  context <- local_context()
  talk <- chat(context, temperature = 0.5, thinking = 8, echo = FALSE)
  expect_seen("chat_create", "{'temperature': 0.5, 'thinking': 8}")
  talk$ask("one", variables = list(low = TRUE), stop = "b", seed = NULL)
  expect_seen(
    "chat_ask",
    "'one', {'variables': {'low': True}, 'stop': ['b'], 'seed': -1}"
  )
  expect_refused({
    chat("model.gguf")
    chat(context, max_tokns = 3)
    chat(context, turns = "x")
  })
  close(context$model)
})

test_that("a closed conversation says so", {
  talk <- chat(local_context(), echo = FALSE)
  talk$close()
  expect_refused(talk$ask("x"))
  expect_page(talk)
})

test_that("a conversation that was saved or closed keeps its messages", {
  context <- local_context()
  talk <- chat(context, "Be brief.", echo = FALSE)
  talk$ask("one")
  talk$ask("two")
  talk$undo()
  turns <- talk$turns()
  saved <- unserialize(serialize(talk, NULL))
  expect_identical(saved$turns(), turns)
  expect_page(saved)
  expect_refused(saved$ask("x"))
  again <- chat(context, turns = saved$turns(), echo = FALSE)
  expect_identical(again$turns(), turns)
  talk$close()
  expect_identical(talk$turns(), turns)
})

test_that("Ctrl-C keeps what was written", {
  skip_on_os("windows")
  talk <- chat(local_context(), echo = TRUE)
  namespace <- asNamespace("llamaherd")
  printer <- namespace$piece_printer
  rebind <- function(value) {
    unlockBinding("piece_printer", namespace)
    assign("piece_printer", value, namespace)
  }
  withr::defer(rebind(printer))
  rebind(\() \(text, kind) tools::pskill(Sys.getpid(), tools::SIGINT))
  cnd <- tryCatch(talk$ask("slow"), interrupt = identity)
  expect_s3_class(cnd, "llamaherd_interrupt")
  expect_identical(cnd$results, "slow")
  expect_identical(last_results(), "slow")
  expect_identical(talk$turns()$content, c("slow", "slow"))
  expect_identical(talk$turns()$interrupted, c(FALSE, TRUE))
  expect_identical(talk$ask("on", echo = FALSE), "on!")
})

test_that("a model remembers", {
  local_real()
  path <- llamaherd_example_model()
  skip_if(is.null(path), "the example model is missing")
  model <- model_load(path)
  talk <- chat(model, echo = FALSE, max_tokens = 8)
  first <- talk$ask("Name a river.")
  expect_identical(chat(model, echo = FALSE, max_tokens = 8)$ask("Name a river."), first)
  talk$ask("And another one?")
  expect_identical(talk$turns()$role, rep(c("user", "assistant"), 2))
  expect_gt(talk$last()$n_prompt_tokens, 20)
  talk$close()
  expect_error(talk$ask("x"), class = "llamaherd_error_context")
  close(model)
})
