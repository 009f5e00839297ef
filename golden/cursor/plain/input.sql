CREATE TABLE cursorDiskKV (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
CREATE TABLE ItemTable (key TEXT UNIQUE ON CONFLICT REPLACE, value BLOB);
INSERT INTO cursorDiskKV VALUES ('composerData:c-plain', '{"composerId": "c-plain", "createdAt": 1767225600000, "lastUpdatedAt": 1767225660000, "fullConversationHeadersOnly": [{"bubbleId": "b1", "type": 1}, {"bubbleId": "b2", "type": 2}], "name": "Count the lines", "modelConfig": {"modelName": "demo-model"}, "unifiedMode": "agent"}');
INSERT INTO cursorDiskKV VALUES ('bubbleId:c-plain:b1', '{"bubbleId": "b1", "type": 1, "text": "<user_query>\nHow many lines?\n</user_query>", "createdAt": "2026-01-01T00:00:00.000Z", "workspaceProjectDir": "/home/user/demo"}');
INSERT INTO cursorDiskKV VALUES ('bubbleId:c-plain:b2', '{"bubbleId": "b2", "type": 2, "text": "42", "createdAt": "2026-01-01T00:00:02.000Z", "modelType": "demo-model", "tokenCount": {"inputTokens": 12, "outputTokens": 3}}');
