# The commonest mistakes: each is told with what to do next.

test_that("mistakes say what to do", {
  context <- local_context()
  model <- context$model
  expect_snapshot(error = TRUE, {
    generate_parallel(model, "a")
    generate_parallel("model.gguf", "a")
    context_create(context)
    context_create("model.gguf")
    generate_parallel(context, NULL)
    generate_parallel(context, data.frame(text = "a"))
    generate(context, NULL)
    generate(context, c("a", "b"))
    classify_parallel(context, "a")
    classify_parallel(context, "a", character())
    classify_parallel(context, "a", c("x", "x"))
    generate_parallel(context, "a", max_tokns = 3)
    context_create(model, nctx = 3)
    generate_parallel(context, "a", system = "x")
    generate_parallel(context, "a", no_such_thing_at_all = 1)
  })
  close(context)
  expect_snapshot(generate_parallel(context, "a"), error = TRUE)
})

test_that("a shortened name of an argument is understood", {
  context <- local_context()
  expect_identical(
    as.character(generate_parallel(context, "a", max_token = 3)),
    "a!"
  )
})
